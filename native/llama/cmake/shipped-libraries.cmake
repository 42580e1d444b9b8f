# Imported targets under the names that llama.cpp's own CMake files use: ggml-base, ggml, llama, llama-common.
#
# File names carry the variant and release: libllama.v0.4.0.so, libllama.metal.v0.4.0.dylib, llama.v0.4.0.dll.

# Sets `result` to the one file of SHIPPED_LIBRARY_DIR called NAME.EXT or NAME.ANYTHING.EXT.
function(find_shipped_library name result)
  if(WIN32)
    set(prefix "")
  else()
    set(prefix "lib")
  endif()
  set(extension "${CMAKE_SHARED_LIBRARY_SUFFIX}")
  file(GLOB found "${SHIPPED_LIBRARY_DIR}/${prefix}${name}${extension}"
       "${SHIPPED_LIBRARY_DIR}/${prefix}${name}.*${extension}")
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "expected one ${prefix}${name}[.*]${extension} in ${SHIPPED_LIBRARY_DIR}, found ${count}")
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Windows: makes an import library from a .def file, which lists the DLL's exports.
function(make_import_library name result)
  set(definition "${IMPORT_DEFINITION_DIR}/${name}.def")
  set(library "${CMAKE_BINARY_DIR}/import/${name}.lib")
  if(NOT EXISTS "${definition}")
    message(FATAL_ERROR "IMPORT_DEFINITION_DIR has no ${name}.def")
  endif()
  if(CMAKE_CXX_COMPILER_ARCHITECTURE_ID)
    set(machine "${CMAKE_CXX_COMPILER_ARCHITECTURE_ID}")
  else()
    set(machine "${CMAKE_SYSTEM_PROCESSOR}")
  endif()
  string(TOUPPER "${machine}" machine)
  string(REPLACE "AMD64" "X64" machine "${machine}")
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/import")
  # lib.exe of MSVC or llvm-lib, which takes the same options.
  execute_process(
    COMMAND "${CMAKE_AR}" /nologo "/def:${definition}" "/out:${library}" "/machine:${machine}"
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "cannot make ${library} from ${definition}:\n${output}")
  endif()
  set(${result} "${library}" PARENT_SCOPE)
endfunction()

function(add_shipped_library name)
  find_shipped_library(${name} location)
  add_library(${name} SHARED IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${location}")
  if(WIN32)
    # Without dllimport in the headers (GGML_SHARED, LLAMA_SHARED stay undefined) calls go through the import
    # library's thunks. With it, the static mtmd would declare its own functions as imported.
    make_import_library(${name} import)
    set_target_properties(${name} PROPERTIES IMPORTED_IMPLIB "${import}")
  endif()
endfunction()

add_shipped_library(ggml-base)
target_include_directories(ggml-base INTERFACE "${LLAMA_SOURCE_DIR}/ggml/include")

add_shipped_library(ggml)
target_link_libraries(ggml INTERFACE ggml-base)

add_shipped_library(llama)
target_include_directories(llama INTERFACE "${LLAMA_SOURCE_DIR}/include")
target_link_libraries(llama INTERFACE ggml)

add_shipped_library(llama-common)
target_include_directories(llama-common INTERFACE "${LLAMA_SOURCE_DIR}/common")
target_link_libraries(llama-common INTERFACE llama vendor::nlohmann vendor::sheredom Threads::Threads)
# Decides the size of a class that crosses the border (common/subproc.h): must be what the library was built with.
target_compile_definitions(llama-common INTERFACE LLAMA_SUBPROCESS)
