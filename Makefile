# SPDX-License-Identifier: Apache-2.0
# A thin face on the scripts and CMake. Settings: PREFIX (install), PRESET (build), PYTHON (the one with PyTorch) and PEERS
# (words for bench/peers/side_by_side.py, e.g. PEERS="--configs small --rounds 5").
PREFIX ?= /usr/local
PRESET ?= release
PYTHON ?= python3
PEERS ?=

.PHONY: all demo check bench bench-peers tidy install uninstall clean
all:
	@tools/build $(PRESET)
demo:
	@tools/demo
check:
	@tools/check
bench: all
	@build/$(PRESET)/cadre bench memory allreduce gemm step --ranks 2
bench-peers: all
	@command -v python3 >/dev/null || { echo "bench-peers needs python3; install it with: apt-get install python3 python3-venv" >&2; exit 2; }
	@python3 bench/peers/side_by_side.py --cadre build/$(PRESET)/cadre --python "$(PYTHON)" $(PEERS)
tidy:
	@tools/arrows && tools/tidy
install: all
	@cmake --install build/$(PRESET) --prefix $(PREFIX)
uninstall:
	@xargs rm -f < build/$(PRESET)/install_manifest.txt
clean:
	@rm -rf build
