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
    set_target_properties(tutti_mpi_${mpi} PROPERTIES INSTALL_RPATH "$ORIGIN")
  endif()
endforeach()
