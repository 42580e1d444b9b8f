// The library as a Node.js module. Its functions take numbers and handles only; src-worker/engines/kernels/binding.ts
// is what the program uses. Whatever is passed in, the answer is a result or an exception.
#include "node-api.h"

#include <cmath>
#include <condition_variable>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <string>

#include "covey-kernels.h"
#include "mapping.h"

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

namespace {

CK_USE_NODE_API

const napi_type_tag mapping_tag = { 0x6f1c3a5b9e2d4780, 0x8a41d7f20c6b953e };
const napi_type_tag run_tag = { 0x25b8e09d71fc4a63, 0xb3967c04ea58d12f };

// A JavaScript exception is pending: leave for the caller.
struct Thrown {};

void check(napi_env env, napi_status status) {
    if (status == napi_ok) {
        return;
    }
    bool pending = false;
    napi_is_exception_pending(env, &pending);
    if (!pending) {
        napi_throw_error(env, nullptr, "Node-API refused a call of the kernel library");
    }
    throw Thrown{};
}

[[noreturn]] void fail(napi_env env, const char *code, const std::string &text) {
    napi_throw_error(env, code, text.c_str());
    throw Thrown{};
}

[[noreturn]] void fail_type(napi_env env, const char *name, const char *expected) {
    const std::string text = std::string(name) + " must be " + expected;
    napi_throw_type_error(env, "ERR_INVALID_ARG_TYPE", text.c_str());
    throw Thrown{};
}

// A mapped file, for as long as its handle or a run needs it. Touched by the JavaScript thread only.
struct Mapping {
    ck_mapping *mapped;
    int uses = 1;

    void drop() {
        if (--uses == 0) {
            ck_mapping_close(mapped);
            delete this;
        }
    }
};

struct MappingHandle {
    Mapping *mapping; // null: closed

    void close() {
        if (mapping != nullptr) {
            mapping->drop();
            mapping = nullptr;
        }
    }
};

// What one JavaScript environment (the main thread, a worker) has.
struct Addon {
    napi_threadsafe_function ended = nullptr;
    unsigned running = 0; // runs whose end JavaScript has not heard of

    // Runs that threads work on.
    std::mutex mutex;
    std::condition_variable changed;
    struct Run *first = nullptr;
};

struct Run {
    Addon *addon = nullptr;
    Run *next = nullptr;
    Run *previous = nullptr;
    Mapping *a = nullptr;
    Mapping *b = nullptr;
    ck_partial *partial = nullptr;
    ck_job *job = nullptr;
    ck_status status = CK_OK;
    napi_ref callback = nullptr;
    int references = 1; // the handle's, and one while it runs; JavaScript thread only

    void drop() {
        if (--references == 0) {
            delete this;
        }
    }

    void release_input() {
        for (Mapping *mapping : { a, b }) {
            if (mapping != nullptr) {
                mapping->drop();
            }
        }
        a = b = nullptr;
    }

    ~Run() {
        release_input();
        ck_partial_delete(partial);
        if (job != nullptr) {
            ck_job_release(job);
        }
    }
};

template <size_t N> struct Arguments {
    napi_env env;
    napi_value values[N];
    Addon *addon;

    Arguments(napi_env env, napi_callback_info info) : env(env) {
        size_t count = N;
        void *data = nullptr;
        check(env, napi_get_cb_info(env, info, &count, values, nullptr, &data));
        addon = static_cast<Addon *>(data);
    }

    napi_valuetype type(size_t index) const {
        napi_valuetype type;
        check(env, napi_typeof(env, values[index], &type));
        return type;
    }

    double number(size_t index, const char *name) const {
        if (type(index) != napi_number) {
            fail_type(env, name, "a number");
        }
        double value;
        check(env, napi_get_value_double(env, values[index], &value));
        return value;
    }

    uint64_t whole(size_t index, const char *name, double most = 9007199254740991.0) const {
        const double value = number(index, name);
        if (!(value >= 0 && value <= most && value == std::floor(value))) {
            const std::string text = std::string(name) + " must be a whole number from 0 to " +
                                     std::to_string(static_cast<uint64_t>(most));
            fail(env, "ERR_OUT_OF_RANGE", text);
        }
        return static_cast<uint64_t>(value);
    }

    std::string text(size_t index, const char *name) const {
        if (type(index) != napi_string) {
            fail_type(env, name, "a string");
        }
        size_t length;
        check(env, napi_get_value_string_utf8(env, values[index], nullptr, 0, &length));
        std::string value(length, '\0');
        check(env, napi_get_value_string_utf8(env, values[index], &value[0], length + 1, &length));
        if (value.find('\0') != std::string::npos) {
            fail_type(env, name, "a string without null characters");
        }
        return value;
    }

    template <class T> T *handle(size_t index, const char *name, const char *kind, const napi_type_tag &tag) const {
        bool is_ours = false;
        if (type(index) == napi_object) {
            check(env, napi_check_object_type_tag(env, values[index], &tag, &is_ours));
        }
        if (!is_ours) {
            fail_type(env, name, kind);
        }
        void *data;
        check(env, napi_unwrap(env, values[index], &data));
        return static_cast<T *>(data);
    }

    MappingHandle *mapping(size_t index, const char *name) const {
        return handle<MappingHandle>(index, name, "an open mapping", mapping_tag);
    }
    Mapping *open_mapping(size_t index, const char *name) const {
        Mapping *const mapping = this->mapping(index, name)->mapping;
        if (mapping == nullptr) {
            fail(env, "ERR_CLOSED", std::string(name) + " is closed");
        }
        return mapping;
    }
    Run *run(size_t index) const { return handle<Run>(index, "run", "a run", run_tag); }
};

napi_value undefined(napi_env env) {
    napi_value value = nullptr;
    napi_get_undefined(env, &value);
    return value;
}

napi_value number(napi_env env, double value) {
    napi_value result;
    check(env, napi_create_double(env, value, &result));
    return result;
}

void set(napi_env env, napi_value object, const char *name, napi_value value) {
    check(env, napi_set_named_property(env, object, name, value));
}

void set(napi_env env, napi_value object, const char *name, uint64_t value) {
    set(env, object, name, number(env, static_cast<double>(value)));
}

// An integer of several words, two's complement, as a BigInt.
napi_value signed_words(napi_env env, const uint64_t *words, size_t count) {
    uint64_t magnitude[CK_EXACT_WORDS];
    const bool negative = words[count - 1] >> 63 != 0;
    uint64_t carry = 1;
    for (size_t i = 0; i < count; i++) {
        magnitude[i] = negative ? ~words[i] + carry : words[i];
        carry &= magnitude[i] == 0;
    }
    napi_value value;
    check(env, napi_create_bigint_words(env, negative, count, magnitude, &value));
    return value;
}

// As an integer of the words that are not zero, in units of 2^exponent.
void set_exact(napi_env env, napi_value object, const ck_exact &sum) {
    size_t zeros = 0;
    while (zeros + 1 < CK_EXACT_WORDS && sum.word[zeros] == 0) {
        zeros++;
    }
    set(env, object, "finite", signed_words(env, sum.word + zeros, CK_EXACT_WORDS - zeros));
    set(env, object, "exponent", number(env, 64.0 * static_cast<double>(zeros) - 1074.0));
}

napi_value extreme(napi_env env, const ck_partial &partial) {
    napi_value value;
    if (partial.elements == partial.nan) {
        check(env, napi_get_null(env, &value));
    } else if (partial.type == CK_F32 || partial.type == CK_F64) {
        double number;
        std::memcpy(&number, &partial.value, sizeof number);
        check(env, napi_create_double(env, number, &value));
    } else if (partial.type == CK_I32 || partial.type == CK_I64) {
        check(env, napi_create_bigint_int64(env, static_cast<int64_t>(partial.value), &value));
    } else {
        check(env, napi_create_bigint_uint64(env, partial.value, &value));
    }
    return value;
}

// BigUint64Array of bins + 3.
napi_value counts_of(napi_env env, const ck_partial &partial) {
    const size_t count = static_cast<size_t>(partial.bins) + 3;
    napi_value buffer, array;
    void *data = nullptr;
    check(env, napi_create_arraybuffer(env, count * sizeof(uint64_t), &data, &buffer));
    std::memcpy(data, partial.counts, count * sizeof(uint64_t));
    check(env, napi_create_typedarray(env, napi_biguint64_array, count, buffer, 0, &array));
    return array;
}

napi_value describe(napi_env env, const ck_partial &partial) {
    napi_value object;
    check(env, napi_create_object(env, &object));
    set(env, object, "elements", partial.elements);
    switch (partial.kernel) {
    case CK_SUM:
    case CK_DOT_PRODUCT:
        if (partial.type == CK_F32 || partial.type == CK_F64) {
            set_exact(env, object, partial.finite);
            set(env, object, "nan", partial.nan);
            set(env, object, "positiveInfinities", partial.positive_infinities);
            set(env, object, "negativeInfinities", partial.negative_infinities);
        } else {
            const uint64_t words[] = { partial.total_low, partial.total_high };
            set(env, object, "total", signed_words(env, words, 2));
        }
        break;
    case CK_XOR: {
        napi_value value;
        check(env, napi_create_bigint_uint64(env, partial.value, &value));
        set(env, object, "value", value);
        break;
    }
    case CK_MIN:
    case CK_MAX:
        set(env, object, "nan", partial.nan);
        set(env, object, "value", extreme(env, partial));
        break;
    case CK_HISTOGRAM:
        set(env, object, "counts", counts_of(env, partial));
        break;
    case CK_KERNELS:
        break;
    }
    return object;
}

// open(path, offset, bytes): a mapping of a file's bytes; of all after offset when bytes is null.
napi_value open_mapping(napi_env env, napi_callback_info info) {
    const Arguments<3> arguments(env, info);
    const std::string path = arguments.text(0, "path");
    const uint64_t offset = arguments.whole(1, "offset");
    const uint64_t bytes = arguments.type(2) == napi_null ? UINT64_MAX : arguments.whole(2, "bytes");
    ck_mapping_error error;
    ck_mapping *const mapped = ck_mapping_open(path.c_str(), offset, bytes, &error);
    if (mapped == nullptr) {
        fail(env, error.code[0] == '\0' ? nullptr : error.code, error.text);
    }
    auto *const handle = new MappingHandle{ new Mapping{ mapped } };
    napi_value object;
    const napi_finalize finalize = [](napi_env, void *data, void *) {
        auto *const handle = static_cast<MappingHandle *>(data);
        handle->close();
        delete handle;
    };
    if (napi_create_object(env, &object) != napi_ok ||
        napi_wrap(env, object, handle, finalize, nullptr, nullptr) != napi_ok) {
        finalize(env, handle, nullptr);
        fail(env, nullptr, "no handle could be made");
    }
    check(env, napi_type_tag_object(env, object, &mapping_tag));
    return object;
}

// close(mapping): runs go on with it to their end.
napi_value close_mapping(napi_env env, napi_callback_info info) {
    const Arguments<1> arguments(env, info);
    arguments.mapping(0, "mapping")->close();
    return undefined(env);
}

napi_value mapping_bytes(napi_env env, napi_callback_info info) {
    const Arguments<1> arguments(env, info);
    return number(env, static_cast<double>(ck_mapping_bytes(arguments.open_mapping(0, "mapping")->mapped)));
}

// From a thread of the pool. JavaScript hears of it in on_ended.
void run_ended(void *context, ck_status status) {
    auto *const run = static_cast<Run *>(context);
    Addon &addon = *run->addon;
    run->status = status;
    const std::lock_guard<std::mutex> lock(addon.mutex);
    (run->previous == nullptr ? addon.first : run->previous->next) = run->next;
    if (run->next != nullptr) {
        run->next->previous = run->previous;
    }
    // Refused only while the environment goes away: then nobody asks for the result.
    napi_call_threadsafe_function(addon.ended, run, napi_tsfn_nonblocking);
    addon.changed.notify_all();
}

// A run that was done on input that changed meanwhile is worth nothing.
bool input_has_changed(const Run &run) {
    return (run.a != nullptr && !ck_mapping_is_unchanged(run.a->mapped)) ||
           (run.b != nullptr && !ck_mapping_is_unchanged(run.b->mapped));
}

void on_ended(napi_env env, napi_value, void *, void *data) {
    auto *const run = static_cast<Run *>(data);
    if (env == nullptr) {
        run->drop();
        return;
    }
    Addon &addon = *run->addon;
    if (--addon.running == 0) {
        napi_unref_threadsafe_function(env, addon.ended);
    }
    const bool changed = input_has_changed(*run);
    run->release_input();
    napi_value callback = nullptr;
    napi_get_reference_value(env, run->callback, &callback);
    napi_delete_reference(env, run->callback);
    run->callback = nullptr;
    try {
        napi_value arguments[3];
        check(env, napi_create_string_utf8(env, changed ? "the input changed while it was read"
                                                        : ck_status_text(run->status),
                                           NAPI_AUTO_LENGTH, &arguments[0]));
        const int outcome = changed ? static_cast<int>(CK_UNREADABLE) : static_cast<int>(run->status);
        arguments[1] = number(env, outcome);
        arguments[2] = outcome == CK_OK ? describe(env, *run->partial) : undefined(env);
        check(env, napi_call_function(env, undefined(env), callback, 3, arguments, nullptr));
    } catch (const Thrown &) {
        napi_value exception = nullptr;
        napi_get_and_clear_last_exception(env, &exception);
        napi_fatal_exception(env, exception);
    }
    run->drop();
}

// A range of a mapping that lies in it.
const void *range_of(napi_env env, const Mapping &mapping, uint64_t from, uint64_t bytes, const char *name) {
    const uint64_t size = ck_mapping_bytes(mapping.mapped);
    if (from > size || bytes > size - from) {
        fail(env, "ERR_OUT_OF_RANGE", std::string("the range does not lie in ") + name + ", which has " +
                                          std::to_string(size) + " bytes");
    }
    const auto *const data = static_cast<const char *>(ck_mapping_data(mapping.mapped));
    return data == nullptr ? nullptr : data + from;
}

// start(kernel, type, isa, threads, bins, low, high, a, aFrom, b, bFrom, bytes, position, ended): a run.
// ended(text, status, partial) is called once, later. kernel, type, isa and status are the header's numbers.
napi_value start_run(napi_env env, napi_callback_info info) {
    const Arguments<14> arguments(env, info);
    ck_call call{};
    call.kernel = static_cast<ck_kernel>(arguments.whole(0, "kernel", CK_KERNELS));
    call.type = static_cast<ck_type>(arguments.whole(1, "type", CK_TYPES));
    call.isa = static_cast<ck_isa>(arguments.whole(2, "isa", CK_ISAS));
    call.threads = static_cast<uint32_t>(arguments.whole(3, "threads", UINT32_MAX));
    call.bins = static_cast<uint32_t>(arguments.whole(4, "bins", UINT32_MAX));
    call.low = arguments.number(5, "low");
    call.high = arguments.number(6, "high");
    Mapping *const a = arguments.open_mapping(7, "input");
    Mapping *const b = arguments.type(9) == napi_null ? nullptr : arguments.open_mapping(9, "second");
    ck_input input{};
    input.bytes = arguments.whole(11, "bytes");
    input.a = range_of(env, *a, arguments.whole(8, "from"), input.bytes, "input");
    const uint64_t second_from = arguments.whole(10, "second from");
    input.b = b == nullptr ? nullptr : range_of(env, *b, second_from, input.bytes, "second");
    input.position = arguments.whole(12, "position");
    if (arguments.type(13) != napi_function) {
        fail_type(env, "ended", "a function");
    }
    ck_status status = ck_check(&call, &input);
    if (status != CK_OK) {
        fail(env, "ERR_INVALID_ARG_VALUE", ck_status_text(status));
    }

    Addon &addon = *arguments.addon;
    auto *const run = new Run;
    run->addon = &addon;
    napi_value object;
    const napi_finalize finalize = [](napi_env, void *data, void *) { static_cast<Run *>(data)->drop(); };
    if (napi_create_object(env, &object) != napi_ok ||
        napi_wrap(env, object, run, finalize, nullptr, nullptr) != napi_ok) {
        run->drop();
        fail(env, nullptr, "no handle could be made");
    }
    check(env, napi_type_tag_object(env, object, &run_tag));
    run->partial = ck_partial_new(&call);
    if (run->partial == nullptr) {
        fail(env, nullptr, ck_status_text(CK_NO_MEMORY));
    }
    check(env, napi_create_reference(env, arguments.values[13], 1, &run->callback));
    for (Mapping *mapping : { a, b }) {
        if (mapping != nullptr) {
            mapping->uses++;
        }
    }
    run->a = a;
    run->b = b;
    run->references++;
    {
        // It may end before it is known here: run_ended waits for the lock.
        const std::lock_guard<std::mutex> lock(addon.mutex);
        run->job = ck_job_start(&call, &input, run->partial, run_ended, run, &status);
        if (run->job != nullptr) {
            run->next = addon.first;
            if (addon.first != nullptr) {
                addon.first->previous = run;
            }
            addon.first = run;
        }
    }
    if (run->job == nullptr) {
        napi_delete_reference(env, run->callback);
        run->drop();
        fail(env, nullptr, ck_status_text(status));
    }
    if (addon.running++ == 0) {
        napi_ref_threadsafe_function(env, addon.ended);
    }
    return object;
}

napi_value bytes_done(napi_env env, napi_callback_info info) {
    const Arguments<1> arguments(env, info);
    return number(env, static_cast<double>(ck_job_bytes_done(arguments.run(0)->job)));
}

napi_value cancel_run(napi_env env, napi_callback_info info) {
    const Arguments<1> arguments(env, info);
    ck_job_cancel(arguments.run(0)->job);
    return undefined(env);
}

napi_value has_isa(napi_env env, napi_callback_info info) {
    const Arguments<1> arguments(env, info);
    const auto isa = static_cast<ck_isa>(arguments.whole(0, "isa", CK_ISAS));
    napi_value value;
    check(env, napi_get_boolean(env, isa < CK_ISAS && ck_isa_available(isa) != 0, &value));
    return value;
}

template <napi_value (*body)(napi_env, napi_callback_info)>
napi_value guarded(napi_env env, napi_callback_info info) noexcept {
    try {
        return body(env, info);
    } catch (const Thrown &) {
        return nullptr;
    } catch (const std::exception &) {
        napi_throw_error(env, nullptr, "there is not enough memory");
        return nullptr;
    }
}

// The environment goes away: its runs must not outlive the files and the module's own data.
void end_runs(void *data) {
    Addon &addon = *static_cast<Addon *>(data);
    std::unique_lock<std::mutex> lock(addon.mutex);
    for (Run *run = addon.first; run != nullptr; run = run->next) {
        ck_job_cancel(run->job);
    }
    addon.changed.wait(lock, [&addon] { return addon.first == nullptr; });
}

// Threads of the pool, and a signal handler, are in this file's code for ever: it must stay loaded.
bool stay_loaded() {
#if defined(_WIN32)
    HMODULE module;
    return GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                              reinterpret_cast<LPCWSTR>(&stay_loaded), &module) != 0;
#else
    Dl_info info;
    return dladdr(reinterpret_cast<void *>(&stay_loaded), &info) != 0 &&
           dlopen(info.dli_fname, RTLD_LAZY | RTLD_NODELETE) != nullptr;
#endif
}

void add_function(napi_env env, napi_value exports, const char *name, napi_callback body, Addon *addon) {
    napi_value function;
    check(env, napi_create_function(env, name, NAPI_AUTO_LENGTH, body, addon, &function));
    set(env, exports, name, function);
}

void initialise(napi_env env, napi_value exports) {
    if (!stay_loaded()) {
        fail(env, nullptr, "the kernel library cannot be kept loaded");
    }
    auto *const addon = new Addon;
    napi_value name;
    check(env, napi_create_string_utf8(env, "kernels", NAPI_AUTO_LENGTH, &name));
    const napi_finalize last = [](napi_env, void *, void *context) { delete static_cast<Addon *>(context); };
    check(env, napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, last, addon, on_ended,
                                               &addon->ended));
    check(env, napi_unref_threadsafe_function(env, addon->ended));
    // After the function above, so that it is called before that is closed.
    check(env, napi_add_env_cleanup_hook(env, end_runs, addon));
    set(env, exports, "abiVersion", static_cast<uint64_t>(ck_abi_version()));
    add_function(env, exports, "open", guarded<open_mapping>, addon);
    add_function(env, exports, "close", guarded<close_mapping>, addon);
    add_function(env, exports, "size", guarded<mapping_bytes>, addon);
    add_function(env, exports, "start", guarded<start_run>, addon);
    add_function(env, exports, "bytesDone", guarded<bytes_done>, addon);
    add_function(env, exports, "cancel", guarded<cancel_run>, addon);
    add_function(env, exports, "hasIsa", guarded<has_isa>, addon);
}

} // namespace

extern "C" NAPI_MODULE_EXPORT napi_value napi_register_module_v1(napi_env env, napi_value exports) {
    if (!ck::bind_node_api()) {
        return nullptr;
    }
    try {
        initialise(env, exports);
    } catch (const Thrown &) {
        return nullptr;
    }
    return exports;
}
