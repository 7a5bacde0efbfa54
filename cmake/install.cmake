# Rules for `cmake --install`. Other projects find the library by find_package(tutti), as tutti::tutti, or by
# pkg-config, as `tutti`. The library, its header and the files for these two form the component `tutti`. The top
# CMakeLists.txt includes this file last.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(tutti PROPERTIES EXPORT_NAME tutti)
install(
  TARGETS tutti
  EXPORT tuttiTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tutti NAMELINK_COMPONENT tutti
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT tutti)

set(tutti_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
install(
  EXPORT tuttiTargets
  NAMESPACE tutti::
  DESTINATION ${tutti_package_dir}
  COMPONENT tutti)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tuttiConfig.cmake.in ${PROJECT_BINARY_DIR}/tuttiConfig.cmake
                              INSTALL_DESTINATION ${tutti_package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break compatibility with the previous one.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/tuttiConfig.cmake ${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake
  DESTINATION ${tutti_package_dir}
  COMPONENT tutti)

# The prefix is relative to the .pc file, so that an installed tree may be moved.
file(RELATIVE_PATH tutti_pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(tutti_pc_rpath "@rpath@")
configure_file(${PROJECT_SOURCE_DIR}/cmake/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc.in @ONLY)
# In a prefix of its own, users' programs find the library by the path in the .pc file. The loader searches /usr anyway.
install(
  CODE [[
  set(rpath " -Wl,-rpath,\${libdir}")
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(rpath "")
  endif()
  configure_file("${CMAKE_CURRENT_LIST_DIR}/tutti.pc.in" "${CMAKE_CURRENT_LIST_DIR}/tutti.pc" @ONLY)]]
  COMPONENT tutti)
install(
  FILES ${PROJECT_BINARY_DIR}/tutti.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT tutti)

# Installed programs find the library by a relative path, so that an installed tree may be moved.
file(RELATIVE_PATH tutti_lib_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
if(TARGET tutti-bench)
  set_target_properties(tutti-bench PROPERTIES INSTALL_RPATH "$ORIGIN/${tutti_lib_from_bin}")
endif()
get_property(mpis GLOBAL PROPERTY TUTTI_MPIS)
get_property(layers GLOBAL PROPERTY TUTTI_PMPI_LAYERS)
list(TRANSFORM mpis PREPEND tutti_mpi_ OUTPUT_VARIABLE modules)
foreach(module IN LISTS modules layers)
  if(TARGET ${module})
    set_target_properties(${module} PROPERTIES INSTALL_RPATH "$ORIGIN")
  endif()
endforeach()

# A release: the packages of this build, each a component, and a target that builds them and nothing else.
set(tutti_packages tutti)
set(release_targets tutti)
if(TARGET tutti_parallel)
  list(APPEND release_targets tutti_parallel)
endif()
if(TARGET tutti_jax)
  list(APPEND release_targets tutti_jax)  # for the Python package
endif()
if(TARGET tutti_tool)
  list(APPEND tutti_packages tutti-tools)
  list(APPEND release_targets tutti_tool tutti-bench)
  if(TARGET tutti_pages)
    list(APPEND release_targets tutti_pages)
  endif()
endif()
if(TARGET tutti_nccl)
  list(APPEND tutti_packages tutti-nccl)
  list(APPEND release_targets tutti_nccl)
endif()
if(layers)
  list(APPEND tutti_packages tutti-mpi)
  list(APPEND release_targets ${layers})
endif()
add_custom_target(tutti_release DEPENDS ${release_targets})
# Each package has its licence and the changes where Debian's packages have them.
foreach(package IN LISTS tutti_packages)
  string(REPLACE "-" "_" component ${package})
  set(documents ${CMAKE_INSTALL_DATADIR}/doc/${package})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${documents} RENAME copyright COMPONENT ${component})
  install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${documents} COMPONENT ${component})
endforeach()

# Debian packages (scripts/release/deb.sh): the library with its header, the tools, libnccl.so.2 over it, and what MPI
# programs preload. The programs that tutti-bench compares with and the modules that link an MPI are left out, because they
# need what was installed at build time.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Tutti developers <tutti@localhost>")  # RELEASING.md: the publisher's address
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_TUTTI_DESCRIPTION "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_TUTTI_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TUTTI_TOOLS_DESCRIPTION "Programs of Tutti: tutti and tutti-bench")
set(CPACK_DEBIAN_TUTTI_NCCL_DESCRIPTION "libnccl.so.2 over Tutti, in a folder of its own")
set(CPACK_DEBIAN_TUTTI_MPI_DESCRIPTION "Libraries that run the collectives of MPI programs over Tutti, preloaded")
# For messages that name lines of C programs; for faster protection of data between hosts.
set(CPACK_DEBIAN_TUTTI_PACKAGE_RECOMMENDS libdw1)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  string(APPEND CPACK_DEBIAN_TUTTI_PACKAGE_RECOMMENDS ", libipsec-mb1")
endif()
set(CPACK_DEBIAN_TUTTI_MPI_PACKAGE_SUGGESTS "mpich | openmpi-bin")
set(CPACK_COMPONENTS_ALL)
foreach(package IN LISTS tutti_packages)
  string(REPLACE "-" "_" component ${package})
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} variable)
  set(CPACK_DEBIAN_${variable}_PACKAGE_NAME ${package})
  if(NOT package STREQUAL tutti)
    set(CPACK_DEBIAN_${variable}_PACKAGE_DEPENDS "tutti (= ${PROJECT_VERSION})")
  endif()
endforeach()
include(CPack)
