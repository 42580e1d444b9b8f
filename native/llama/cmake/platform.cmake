# What differs between systems: how a program finds the libraries beside it, and compiler settings.

if(APPLE)
  # The shipped libraries are named @rpath/NAME.
  set(CMAKE_MACOSX_RPATH ON)
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(CMAKE_INSTALL_RPATH "@loader_path")
elseif(UNIX)
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN")
  # RUNPATH also where the linker's default is the older RPATH. A missing symbol is an error now and not when
  # a program is started. Symbols of static parts stay private: libllama-common.so has a copy of cpp-httplib
  # of its own, and each side must use its own.
  add_link_options(
    LINKER:--enable-new-dtags
    LINKER:--no-undefined
    LINKER:--exclude-libs,ALL
    LINKER:--gc-sections
    LINKER:-s)
  add_compile_options(-ffunction-sections -fdata-sections)
elseif(WIN32)
  # The DLLs use the shared C runtime of the release configuration, and C++ objects cross the border.
  set(CMAKE_MSVC_RUNTIME_LIBRARY MultiThreadedDLL)
  add_compile_definitions(_CRT_SECURE_NO_WARNINGS NOMINMAX)
  if(MSVC)
    add_compile_options(/utf-8 /bigobj $<$<COMPILE_LANGUAGE:CXX>:/EHsc>)
  endif()
endif()

if(NOT MSVC)
  # Messages of failed assertions name a source file; they need not name this machine's folders.
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag("-ffile-prefix-map=a=b" HAS_FILE_PREFIX_MAP)
  if(HAS_FILE_PREFIX_MAP)
    add_compile_options("-ffile-prefix-map=${LLAMA_SOURCE_DIR}/=")
  endif()
  # llama.cpp's warnings are its own project's concern.
  add_compile_options(-w)
endif()
