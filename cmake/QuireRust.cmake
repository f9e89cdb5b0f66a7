# rust/quire-hf as one static library, built once for all build types, sanitized ones too (its target folder lies outside the
# build folder, and no flags of the C++ build reach it).
find_program(QUIRE_CARGO NAMES cargo HINTS $ENV{HOME}/.cargo/bin REQUIRED)
set(QUIRE_RUST_TARGET_DIR ${PROJECT_SOURCE_DIR}/rust/target CACHE PATH "Cargo's target folder")
set(quire_hf_library ${QUIRE_RUST_TARGET_DIR}/release/libquire_hf.a)
file(GLOB_RECURSE quire_hf_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/rust/quire-hf/src/*.rs)
add_custom_command(
  OUTPUT ${quire_hf_library}
  COMMAND ${CMAKE_COMMAND} -E env --unset=CFLAGS --unset=CXXFLAGS CARGO_TARGET_DIR=${QUIRE_RUST_TARGET_DIR}
          ${QUIRE_CARGO} build --release --locked --quiet
  # Cargo leaves the library's time as it is where it finds nothing to do.
  COMMAND ${CMAKE_COMMAND} -E touch_nocreate ${quire_hf_library}
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/rust/quire-hf
  DEPENDS ${quire_hf_sources} ${PROJECT_SOURCE_DIR}/rust/quire-hf/Cargo.toml ${PROJECT_SOURCE_DIR}/rust/quire-hf/Cargo.lock
  COMMENT "Building the Rust library (tokenizers, chat templates)"
  USES_TERMINAL)
add_custom_target(quire_hf_build DEPENDS ${quire_hf_library})
add_library(quire_hf INTERFACE)
add_dependencies(quire_hf quire_hf_build)
target_include_directories(quire_hf INTERFACE ${PROJECT_SOURCE_DIR}/rust/quire-hf/include)
target_link_libraries(quire_hf INTERFACE ${quire_hf_library} Threads::Threads ${CMAKE_DL_LIBS})
