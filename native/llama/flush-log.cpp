// llama.cpp prints its log from a thread of its own and does not wait for it when the program ends: the lines that
// say why a model could not be loaded are then lost, about one time in three on two cores. Part of llama-server's
// executable, so that it runs while that thread still exists.
#include "log.h"

namespace {

struct log_flusher {
    ~log_flusher() {
        common_log_pause(common_log_main());
    }
} flusher;

}  // namespace
