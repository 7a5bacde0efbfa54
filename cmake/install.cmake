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
configure_file(${PROJECT_SOURCE_DIR}/cmake/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
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
foreach(mpi IN LISTS mpis)
  if(TARGET tutti_mpi_${mpi})
    set_target_properties(tutti_mpi_${mpi} tutti_pmpi_${mpi} PROPERTIES INSTALL_RPATH "$ORIGIN")
  endif()
endforeach()

# Debian packages (scripts/release/deb.sh): the library with its header, the tools, and libnccl.so.2 over it. The
# programs that tutti-bench compares with and the modules for MPI are left out, because they need what was installed at
# build time.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Tutti developers <tutti@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL tutti)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_TUTTI_PACKAGE_NAME tutti)
set(CPACK_DEBIAN_TUTTI_DESCRIPTION "${PROJECT_DESCRIPTION}")
if(TARGET tutti_tool)
  list(APPEND CPACK_COMPONENTS_ALL tutti_tools)
  set(CPACK_DEBIAN_TUTTI_TOOLS_PACKAGE_NAME tutti-tools)
  set(CPACK_DEBIAN_TUTTI_TOOLS_PACKAGE_SECTION utils)
  set(CPACK_DEBIAN_TUTTI_TOOLS_PACKAGE_DEPENDS "tutti (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_TUTTI_TOOLS_DESCRIPTION "Programs of Tutti: tutti and tutti-bench")
endif()
if(TARGET tutti_nccl)
  list(APPEND CPACK_COMPONENTS_ALL tutti_nccl)
  set(CPACK_DEBIAN_TUTTI_NCCL_PACKAGE_NAME tutti-nccl)
  set(CPACK_DEBIAN_TUTTI_NCCL_PACKAGE_DEPENDS "tutti (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_TUTTI_NCCL_DESCRIPTION "libnccl.so.2 over Tutti, in a folder of its own")
endif()
include(CPack)
