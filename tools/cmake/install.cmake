# SPDX-License-Identifier: Apache-2.0
# `cmake --install build/release --prefix PREFIX`: library, headers, pkg-config file, CMake package, `cadre`, man page,
# completion, the peers' benchmarks. The pkg-config file is written at install time, so that --prefix counts.
include(CMakePackageConfigHelpers)
set_target_properties(cadre_command PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

install(TARGETS cadre EXPORT cadre-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cadre_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/cadre DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT cadre-targets NAMESPACE cadre:: FILE cadre-config.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cadre)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cadre-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cadre-config-version.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cadre)

install(CODE "set(CMAKE_INSTALL_LIBDIR ${CMAKE_INSTALL_LIBDIR})
set(CMAKE_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
set(PROJECT_VERSION ${PROJECT_VERSION})
configure_file(${CMAKE_SOURCE_DIR}/tools/cmake/cadre.pc.in ${CMAKE_BINARY_DIR}/cadre.pc @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/cadre.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The man page and the completion come out of the command's own tables.
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/cadre.1 ${CMAKE_BINARY_DIR}/cadre.bash
                   COMMAND cadre_command man > ${CMAKE_BINARY_DIR}/cadre.1
                   COMMAND cadre_command completion > ${CMAKE_BINARY_DIR}/cadre.bash
                   DEPENDS cadre_command VERBATIM)
add_custom_target(tables ALL DEPENDS ${CMAKE_BINARY_DIR}/cadre.1 ${CMAKE_BINARY_DIR}/cadre.bash)
install(FILES ${CMAKE_BINARY_DIR}/cadre.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_BINARY_DIR}/cadre.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME cadre)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/bench/peers DESTINATION ${CMAKE_INSTALL_DATADIR}/cadre)
