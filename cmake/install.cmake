# What `cmake --install` installs where, so that other projects find it: find_package(tutti) gives tutti::tutti,
# pkg-config gives `tutti`. Included last by the top CMakeLists.txt. The library, its header and these two form the
# component `tutti`.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(tutti PROPERTIES EXPORT_NAME tutti)
install(
  TARGETS tutti
  EXPORT tuttiTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tutti NAMELINK_COMPONENT tutti)
install(
  DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT tutti
  FILES_MATCHING
  PATTERN "*.h")

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

# Relative to the .pc file, so that an installed tree may be moved.
file(RELATIVE_PATH tutti_pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
install(
  FILES ${PROJECT_BINARY_DIR}/tutti.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT tutti)

# Installed programs find the library relative to themselves, wherever the tree is moved.
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
