# Toolchain: 64-bit ARM, by Debian's cross compiler. The libraries come from the folder that scripts/test/arm64.sh
# fills, and qemu-user runs the programs.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triplet aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${triplet}-gcc)
set(CMAKE_CXX_COMPILER ${triplet}-g++)

cmake_path(SET TUTTI_ARM64_LIBRARIES NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-libraries)
set(CMAKE_FIND_ROOT_PATH ${TUTTI_ARM64_LIBRARIES} /usr/${triplet})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${TUTTI_ARM64_LIBRARIES})
set(ENV{PKG_CONFIG_LIBDIR} ${TUTTI_ARM64_LIBRARIES}/usr/lib/${triplet}/pkgconfig:${TUTTI_ARM64_LIBRARIES}/usr/share/pkgconfig)
# Debian's compilers search a folder of headers for each architecture, but only below the system's root.
foreach(language C CXX)
  set(CMAKE_${language}_STANDARD_INCLUDE_DIRECTORIES ${TUTTI_ARM64_LIBRARIES}/usr/include/${triplet})
endforeach()

# -L: where Debian's cross compiler has the C library. -E: tells the tests (testing/surroundings.h).
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/${triplet} -E TESTS_RUN_UNDER=qemu-aarch64)
