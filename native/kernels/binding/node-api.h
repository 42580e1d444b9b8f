// Node-API and nothing else of Node.js, so that one file serves Node.js and Electron of any version.
//
// On Windows functions are looked up in the program that loads this: an import would name node.exe, which an Electron
// app is not.
#pragma once

#define NAPI_VERSION 8

#if !defined(_WIN32)

#include <node_api.h>

namespace ck {
inline bool bind_node_api() { return true; }
} // namespace ck

#define CK_USE_NODE_API

#else

#define NAPI_EXTERN
#include <node_api.h>

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define CK_NODE_API(use)                                                                                              \
    use(napi_add_env_cleanup_hook) use(napi_call_function) use(napi_call_threadsafe_function)                         \
    use(napi_check_object_type_tag) use(napi_create_arraybuffer) use(napi_create_bigint_int64)                        \
    use(napi_create_bigint_uint64) use(napi_create_bigint_words) use(napi_create_double)                              \
    use(napi_create_function) use(napi_create_object) use(napi_create_reference) use(napi_create_string_utf8)         \
    use(napi_create_threadsafe_function) use(napi_create_typedarray) use(napi_delete_reference)                       \
    use(napi_get_and_clear_last_exception) use(napi_get_boolean) use(napi_get_cb_info) use(napi_get_null)             \
    use(napi_get_reference_value) use(napi_get_undefined) use(napi_get_value_double)                                  \
    use(napi_get_value_string_utf8) use(napi_is_exception_pending) use(napi_ref_threadsafe_function)                  \
    use(napi_fatal_exception) use(napi_set_named_property) use(napi_throw_error)                                      \
    use(napi_throw_type_error) use(napi_type_tag_object) use(napi_typeof) use(napi_unref_threadsafe_function)         \
    use(napi_unwrap) use(napi_wrap)

namespace ck {
namespace host {
#define CK_DECLARE(name) inline decltype(&::name) name = nullptr;
CK_NODE_API(CK_DECLARE)
#undef CK_DECLARE
} // namespace host

inline bool bind_node_api() {
    const HMODULE program = GetModuleHandleW(nullptr);
    bool found = true;
#define CK_BIND(name)                                                                                                 \
    host::name = reinterpret_cast<decltype(&::name)>(reinterpret_cast<void *>(GetProcAddress(program, #name)));       \
    found = found && host::name != nullptr;
    CK_NODE_API(CK_BIND)
#undef CK_BIND
    return found;
}
} // namespace ck

// Inside a namespace: its code then calls what was looked up, and not the declarations of the headers.
#define CK_USE(name) using ck::host::name;
#define CK_USE_NODE_API CK_NODE_API(CK_USE)

#endif
