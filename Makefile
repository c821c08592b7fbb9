# SPDX-License-Identifier: Apache-2.0
# A thin face on the scripts and CMake. Settings: PREFIX (install), PRESET (build).
PREFIX ?= /usr/local
PRESET ?= release

.PHONY: all demo check bench tidy install uninstall clean
all:
	@tools/build $(PRESET)
demo:
	@tools/demo
check:
	@tools/check
bench: all
	@build/$(PRESET)/cadre bench allreduce memory --ranks 2
tidy:
	@tools/arrows && tools/tidy
install: all
	@cmake --install build/$(PRESET) --prefix $(PREFIX)
uninstall:
	@xargs rm -f < build/$(PRESET)/install_manifest.txt
clean:
	@rm -rf build
