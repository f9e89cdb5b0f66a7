# One static library per folder of src/, from all sources found in it (main.cc and per-ISA kernels aside).

add_library(quire_options INTERFACE)
target_compile_options(quire_options INTERFACE -Wall -Wextra -Wpedantic -Werror -Wno-missing-field-initializers)
if(QUIRE_SANITIZE)
  # The instrumentation leads g++ to warn of the standard library's own code: there warnings are no errors.
  target_compile_options(quire_options INTERFACE -Wno-error -Wno-maybe-uninitialized -fsanitize=${QUIRE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(quire_options INTERFACE -fsanitize=${QUIRE_SANITIZE})
endif()

# Sanitized builds compile several sources as one: most of their time goes into reading headers. So no two sources of one folder may
# give names in their unnamed namespaces to different things.
function(quire_join_sources target)
  if(QUIRE_SANITIZE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

function(quire_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$|/kernels/")
  if(NOT sources)
    file(WRITE ${CMAKE_BINARY_DIR}/empty/${name}.cc "")
    set(sources ${CMAKE_BINARY_DIR}/empty/${name}.cc)
  endif()
  add_library(quire_${name} STATIC ${sources})
  quire_join_sources(quire_${name})
  target_include_directories(quire_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  list(TRANSFORM ARG_DEPENDS PREPEND quire_)
  target_link_libraries(quire_${name} PUBLIC quire_options ${ARG_DEPENDS} ${ARG_LIBRARIES})
endfunction()
