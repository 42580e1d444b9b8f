/* Files in memory, to be read only. */
#ifndef CK_MAPPING_H
#define CK_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ck_mapping ck_mapping;

/* What went wrong: a constant for Node.js's `error.code` (or ""), and the system's words. */
typedef struct ck_mapping_error {
    char code[32];
    char text[256];
} ck_mapping_error;

/*
 * Maps `bytes` from `offset` of a regular file, or to its end when bytes is UINT64_MAX. The path is UTF-8. NULL: see
 * `error`. A range past the end of the file is an error.
 */
ck_mapping *ck_mapping_open(const char *path, uint64_t offset, uint64_t bytes, ck_mapping_error *error);
const void *ck_mapping_data(const ck_mapping *mapping);
uint64_t ck_mapping_bytes(const ck_mapping *mapping);
/*
 * Whether the file still has the size and the time of change that it was opened with. Of one that became shorter in
 * its last page, the missing bytes read as zeros without any fault; this tells.
 */
int ck_mapping_is_unchanged(const ck_mapping *mapping);
void ck_mapping_close(ck_mapping *mapping);

#ifdef __cplusplus
}
#endif

#endif
