# What others build against: the public headers as they are installed, libquire.so, and the installed CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(quire_stage ${CMAKE_BINARY_DIR}/public/include)
file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/public_headers.txt quire_public_headers)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/public_headers.txt)
list(TRANSFORM quire_public_headers PREPEND ${PROJECT_SOURCE_DIR}/)
set(stage_script ${PROJECT_SOURCE_DIR}/cmake/StagePublicHeaders.cmake)
# abi.h, which one file of the program includes, has a folder of its own: the program's own headers come from include/ and src/.
set(quire_generated ${CMAKE_BINARY_DIR}/generated)
add_custom_command(
  OUTPUT ${quire_generated}/quire/abi.h
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DSTAGE=${quire_stage} -DVERSION=${PROJECT_VERSION} -P ${stage_script}
  COMMAND ${CMAKE_COMMAND} -E copy ${quire_stage}/quire/abi.h ${quire_generated}/quire/abi.h
  DEPENDS ${quire_public_headers} ${stage_script} ${PROJECT_SOURCE_DIR}/cmake/public_headers.txt
  COMMENT "Laying out the public headers")
add_custom_target(quire_stage_headers DEPENDS ${quire_generated}/quire/abi.h)

# The folders that a model calls into are linked whole, since a plugin may call what no built-in model does.
set(quire_model_folders base tensor ops distributed checkpoint quantization kv_cache layers lora models)

# The program or library `target` exports all that models call, and `...`, further folders.
function(quire_export_models target)
  foreach(folder IN LISTS quire_model_folders ARGN)
    set_target_properties(${target} PROPERTIES LINK_LIBRARY_OVERRIDE_quire_${folder} WHOLE_ARCHIVE)
  endforeach()
  # Of the archives that are no code of ours nothing is exported.
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,libquire_hf.a)
endfunction()

function(quire_package)
  # Embedders link one shared library: it exports what include/quire has and nothing else, so that the Rust and Boost code inside meets none of
  # theirs, and plugins find the same symbols in it as in the program. The folders' archives stay a matter of the build.
  file(WRITE ${CMAKE_BINARY_DIR}/empty/quire_library.cc "")
  add_library(quire_library SHARED EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/empty/quire_library.cc)
  set_target_properties(quire_library PROPERTIES OUTPUT_NAME quire EXPORT_NAME quire SOVERSION ${PROJECT_VERSION})
  target_link_libraries(quire_library PRIVATE quire_api)
  quire_export_models(quire_library api)
  target_include_directories(quire_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(quire_library INTERFACE cxx_std_20)

  add_library(quire_plugin INTERFACE)
  set_target_properties(quire_plugin PROPERTIES EXPORT_NAME plugin)
  target_include_directories(quire_plugin INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(quire_plugin INTERFACE cxx_std_20)

  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/quire)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/quireConfig.cmake.in ${CMAKE_BINARY_DIR}/quireConfig.cmake
                                INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/quireConfigVersion.cmake COMPATIBILITY ExactVersion)

  # Component "plugin": the program and what plugins are built with. Component "embedding": libquire.so beside the headers.
  install(TARGETS quire RUNTIME COMPONENT plugin)
  if(TARGET quire_mpi)
    install(TARGETS quire_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT plugin)  # found beside the program
  endif()
  install(DIRECTORY ${quire_stage}/quire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT plugin)
  install(TARGETS quire_plugin EXPORT quirePlugin COMPONENT plugin)
  install(EXPORT quirePlugin NAMESPACE quire:: DESTINATION ${package} COMPONENT plugin)
  install(FILES ${CMAKE_BINARY_DIR}/quireConfig.cmake ${CMAKE_BINARY_DIR}/quireConfigVersion.cmake DESTINATION ${package}
          COMPONENT plugin)
  install(TARGETS quire_library EXPORT quireLibrary LIBRARY COMPONENT embedding OPTIONAL)
  install(EXPORT quireLibrary NAMESPACE quire:: DESTINATION ${package} COMPONENT embedding)
endfunction()
