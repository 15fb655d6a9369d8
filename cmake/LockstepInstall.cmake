# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: the headers, the libraries, the tool, the XLA CPU plugin, and the package that find_package(Lockstep)
# finds. Targets: Lockstep::lockstep, Lockstep::pch, and Lockstep::testing_main for process tests where GoogleTest is there.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
set(plugin_dir ${CMAKE_INSTALL_LIBDIR}/lockstep)

# A header that shows gRPC, protobuf, PJRT or UCX is its layer's own and stays here.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/lockstep/*.h)
foreach(header IN LISTS headers)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} foreign
       REGEX "^#include [<\"](grpc|grpcpp|google/protobuf|xla|ucp)/|^#include [<\"].*\\.pb\\.h[>\"]")
  if(NOT foreign)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
  endif()
endforeach()

get_property(layers GLOBAL PROPERTY LOCKSTEP_LAYERS)
set(exported ${layers} lockstep lockstep_pch lockstep_options lockstep_xla_headers)
if(TARGET lockstep_testing_main)
  list(APPEND exported lockstep_testing_main)
endif()
foreach(target IN LISTS exported)
  string(REGEX REPLACE "^lockstep_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${exported} EXPORT LockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/LockstepConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/LockstepConfig.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS plugin_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/LockstepConfig.cmake ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/LockstepLinkDependencies.cmake
        DESTINATION ${package_dir})

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS lockstep_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# Not there where the user has a plugin of his own.
install(PROGRAMS ${PROJECT_SOURCE_DIR}/third_party/pjrt/pjrt_c_api_cpu_plugin.so DESTINATION ${plugin_dir} OPTIONAL)
if(TARGET lockstep_parquet)
  install(TARGETS lockstep_parquet LIBRARY DESTINATION ${plugin_dir})
  set(arrow ${PROJECT_SOURCE_DIR}/third_party/parquet)
  install(PROGRAMS ${arrow}/libparquet.so.2600 ${arrow}/libarrow.so.2600 DESTINATION ${plugin_dir})
endif()
