# A carrier of transports/ whose library's header is needed to build it, and the library only where it is used. Its
# sources are in transports/NAME/; without the header no_NAME.cc takes the place of all of them. A macro of the top
# CMakeLists.txt, whose lists it shortens: sets TUTTI_HAVE_<NAME>.
include(CheckIncludeFileCXX)
macro(tutti_optional_carrier name header package)
  string(TOUPPER ${name} upper)
  check_include_file_cxx(${header} TUTTI_HAVE_${upper})
  if(TUTTI_HAVE_${upper})
    list(FILTER TUTTI_SOURCES EXCLUDE REGEX "/no_${name}\\.cc$")
  else()
    message(STATUS "Without ${name}: there is no ${header} (Debian: ${package})")
    list(FILTER TUTTI_SOURCES EXCLUDE REGEX "/transports/${name}/")
    list(APPEND TUTTI_SOURCES ${PROJECT_SOURCE_DIR}/transports/${name}/no_${name}.cc)
    list(FILTER TUTTI_TEST_SOURCES EXCLUDE REGEX "/transports/${name}/")
  endif()
endmacro()

tutti_optional_carrier(verbs infiniband/verbs.h libibverbs-dev)  # loaded by transports/verbs/library.h
tutti_optional_carrier(ucx ucp/api/ucp.h libucx-dev)             # loaded by transports/ucx/library.h
