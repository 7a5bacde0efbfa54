# RDMA's header is needed to build the verbs carrier, its library only where that is used (transports/verbs_library.h).
# Without the header no_verbs.cc takes the place of all of it. Included by the top CMakeLists.txt, whose lists it shortens.
include(CheckIncludeFileCXX)
check_include_file_cxx(infiniband/verbs.h TUTTI_HAVE_VERBS)
if(TUTTI_HAVE_VERBS)
  list(FILTER TUTTI_SOURCES EXCLUDE REGEX "/no_verbs\\.cc$")
else()
  message(STATUS "Without verbs: there is no infiniband/verbs.h (Debian: libibverbs-dev)")
  list(FILTER TUTTI_SOURCES EXCLUDE REGEX "/verbs(_[a-z]+)?\\.cc$")
  list(FILTER TUTTI_TEST_SOURCES EXCLUDE REGEX "/verbs_[a-z]+_test\\.cc$")
endif()
