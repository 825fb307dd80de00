/* What tests of sequences on a real GPU share: a context, weights and other memory of bf16, short forms. */
#ifndef MD_TESTS_CUDA_GPU_SEQUENCE_H
#define MD_TESTS_CUDA_GPU_SEQUENCE_H

#include "md_build_config.h"
#include "support/check.h"

#include <md/sequence.h>

#include <stdbool.h>
#include <stdlib.h>

enum { D = 256, H = 512, MOST = 128, N = MOST * D };

static md_context *context; /* NULL: no GPU */
static void *gain, *w_up, *w_down; /* [D], [H,D], [D,H] */

static inline void *noise(size_t n)
{
    uint16_t *all = malloc(n * sizeof *all);
    void *p = NULL;
    assert_non_null(all);
    for (size_t i = 0; i < n; i++)
        all[i] = (uint16_t)(0x3c00 + (i * 2654435761u >> 7 & 0x80ff));
    assert_ok(md_alloc(&p, context, n * sizeof *all));
    assert_ok(md_copy(context, p, all, n * sizeof *all));
    free(all);
    return p;
}

/* False: no GPU. */
static inline bool open_gpu(void)
{
    if (md_context_create(&context, &(md_context_options){.device = "cuda", .hints = "16,128"}) != MD_OK)
        return false;
    gain = noise(D);
    w_up = noise((size_t)H * D);
    w_down = noise((size_t)D * H);
    return true;
}

static inline int close_gpu(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static inline int32_t tensor(md_sequence *s, md_sequence_role role, const char *size, void *data)
{
    int32_t id = 0;
    assert_ok(md_sequence_add_tensor(
        &id, s, &(md_sequence_tensor){.role = role, .dtype = MD_BF16, .size = size, .data = data}));
    return id;
}

static inline void read_back(uint16_t out[N], const void *p)
{
    assert_ok(md_sync(context, NULL));
    assert_ok(md_copy(context, out, p, N * sizeof *out));
}

static inline void clear(void *p)
{
    static const uint16_t zeros[N];
    assert_ok(md_copy(context, p, zeros, sizeof zeros));
}

static inline void run(md_sequence *s, void *stream, int64_t t, void *x, void *y)
{
    assert_ok(md_sequence_run(s, stream, &t, 1, (void *const[]){x, y}, 2));
}

static inline md_sequence_counters counters(md_sequence *s)
{
    md_sequence_counters c;
    assert_ok(md_sequence_count(&c, s));
    return c;
}

static char text[1 << 16];

static inline int take(void *user, const char *part, size_t n)
{
    (void)user;
    if (strlen(text) + n >= sizeof text)
        return 1;
    strncat(text, part, n);
    return 0;
}

#endif
