# rust/quire-hf as one static library, built once for all build types, sanitized ones too (its target folder lies outside the
# build folder, and no flags of the C++ build reach it).

# The first cargo that is new enough; Ubuntu's newer ones lie in folders of their own, beside their rustc.
set(QUIRE_CARGO_OLDEST 1.80)
function(quire_find_cargo)
  file(GLOB versioned LIST_DIRECTORIES true /usr/lib/rust-*/bin)
  list(SORT versioned COMPARE NATURAL ORDER DESCENDING)
  find_program(on_path NAMES cargo NO_CACHE)
  list(TRANSFORM versioned APPEND /cargo)
  set(candidates ${on_path} $ENV{HOME}/.cargo/bin/cargo ${versioned})
  foreach(candidate IN LISTS candidates)
    if(NOT EXISTS ${candidate})
      continue()
    endif()
    execute_process(COMMAND ${candidate} --version OUTPUT_VARIABLE version ERROR_QUIET)
    if(version MATCHES "^cargo ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL QUIRE_CARGO_OLDEST)
      set(QUIRE_CARGO ${candidate} CACHE FILEPATH "cargo")
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "There is no cargo ${QUIRE_CARGO_OLDEST} or newer: scripts/setup.sh installs one")
endfunction()
if(NOT QUIRE_CARGO)
  quire_find_cargo()
endif()
get_filename_component(quire_cargo_folder ${QUIRE_CARGO} DIRECTORY)
set(quire_rustc)
if(quire_cargo_folder MATCHES "^/usr/lib/rust-")
  set(quire_rustc RUSTC=${quire_cargo_folder}/rustc)
endif()

set(QUIRE_RUST_TARGET_DIR ${PROJECT_SOURCE_DIR}/rust/target CACHE PATH "Cargo's target folder")
set(quire_hf_library ${QUIRE_RUST_TARGET_DIR}/release/libquire_hf.a)
file(GLOB_RECURSE quire_hf_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/rust/quire-hf/src/*.rs)
add_custom_command(
  OUTPUT ${quire_hf_library}
  COMMAND ${CMAKE_COMMAND} -E env --unset=CFLAGS --unset=CXXFLAGS ${quire_rustc} CARGO_TARGET_DIR=${QUIRE_RUST_TARGET_DIR}
          ${QUIRE_CARGO} build --release --locked --quiet
  # Cargo leaves the library's time as it is where it finds nothing to do.
  COMMAND ${CMAKE_COMMAND} -E touch_nocreate ${quire_hf_library}
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/rust/quire-hf
  DEPENDS ${quire_hf_sources} ${PROJECT_SOURCE_DIR}/rust/quire-hf/Cargo.toml ${PROJECT_SOURCE_DIR}/rust/quire-hf/Cargo.lock
  COMMENT "Building the Rust library (tokenizers, chat templates, hub)"
  USES_TERMINAL)
add_custom_target(quire_hf_build DEPENDS ${quire_hf_library})
add_library(quire_hf INTERFACE)
add_dependencies(quire_hf quire_hf_build)
target_include_directories(quire_hf INTERFACE ${PROJECT_SOURCE_DIR}/rust/quire-hf/include)
target_link_libraries(quire_hf INTERFACE ${quire_hf_library} Threads::Threads ${CMAKE_DL_LIBS})
