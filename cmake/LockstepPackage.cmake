# SPDX-License-Identifier: Apache-2.0
# `cpack` makes three Debian packages. lockstep has what a machine needs where programs run: the tool, XLA's CPU plugin, and
# as its dependencies the libraries that the tool and programs are linked with. liblockstep-dev has what programs are
# built with. lockstep-onednn has oneDNN, for convolutions and training on CPUs.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_VENDOR "The Lockstep authors")
set(CPACK_PACKAGE_CONTACT "The Lockstep authors")
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)  # lockstep.pc names the prefix
set(CPACK_COMPONENTS_ALL runtime development)
if(EXISTS ${PROJECT_SOURCE_DIR}/third_party/onednn/libdnnl.so.3)
  list(APPEND CPACK_COMPONENTS_ALL onednn)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)

set(about "JAX's multi-controller SPMD model for C++20: one program runs as many\n processes, which compute on arrays that span all devices.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME lockstep)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "launcher and XLA plugin of Lockstep\n${about}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libopenblas0-pthread, libsleef3, libcurl4 | libcurl4t64, lockstep-onednn")  # loaded when needed
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "openssh-client, libucx0")

set(CPACK_DEBIAN_ONEDNN_PACKAGE_NAME lockstep-onednn)
set(CPACK_DEBIAN_ONEDNN_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_ONEDNN_DESCRIPTION "oneDNN for Lockstep\n With it, convolutions and products of transposed matrices take a\n half to a fifth of the time on CPUs.")
set(CPACK_DEBIAN_ONEDNN_PACKAGE_DEPENDS libgomp1)

# What LockstepLinkDependencies.cmake finds in a user's build. pkg-config is one of its means.
set(link_packages libfmt-dev libgrpc++-dev libhwy-dev libpcre2-dev libprotobuf-dev libspdlog-dev libssl-dev
                  libutf8proc-dev libxxhash-dev libzip-dev nlohmann-json3-dev pkg-config zlib1g-dev)
list(JOIN link_packages ", " link_packages)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME liblockstep-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "headers and libraries of Lockstep\n${about}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "lockstep (= ${PROJECT_VERSION}), ${link_packages}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "g++ (>= 4:12)")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "cmake, libgmock-dev, libgtest-dev")
include(CPack)

# Where Debian looks for the license of a package.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/copyright CONTENT
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Lockstep
Comment: NOTICE, in the folder of the package lockstep, says what is of other projects.

Files: *
Copyright: The Lockstep authors
License: Apache-2.0

Files: usr/include/xla/* usr/lib/lockstep/pjrt_c_api_cpu_plugin.so
Copyright: The OpenXLA Authors
License: Apache-2.0

Files: usr/lib/lockstep/libdnnl.so.3
Copyright: Intel Corporation and the contributors of oneDNN
License: Apache-2.0

License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
")
install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep COMPONENT runtime
        EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep-onednn COMPONENT onednn
        EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/liblockstep-dev
        COMPONENT development EXCLUDE_FROM_ALL)
