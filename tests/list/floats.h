/* Lists of f32 tensors of rank 1, and a context, for tests of formulas over lists. */
#ifndef MD_TESTS_LIST_FLOATS_H
#define MD_TESTS_LIST_FLOATS_H

#include "support/check.h"

#include <math.h>
#include <md/list.h>
#include <stdbool.h>

#define CLIP                                                                                                           \
    "scalar max_norm, lr;\n"                                                                                           \
    "let n = sum[t,i](f32(G@t[i]) * f32(G@t[i]));\n"                                                                   \
    "let c = min(1, max_norm / (sqrt(n) + 1e-6));\n"                                                                   \
    "P@t[i] = P@t[i] - lr * c * G@t[i]"

enum { MOST = 40, ROOM = 20000 };

static md_context *context;

static inline int set_up(void **state)
{
    (void)state;
    return md_context_create(&context, &(md_context_options){.device = "host", .threads = 2, .hints = "16,4096"}) !=
           MD_OK;
}

static inline int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

/* ---- Lists of f32 tensors of rank 1 */

typedef struct floats {
    int64_t n;
    float *x[MOST];
    md_tensor t[MOST];
} floats;

static inline md_tensor vector(void *data, int64_t n)
{
    return md_tensor_make(data, MD_F32, 1, &n);
}

static inline floats *make_floats(int64_t n, const int64_t *size, uint64_t *seed)
{
    floats *f = calloc(1, sizeof *f);
    f->n = n;
    for (int64_t i = 0; i < n; i++) {
        f->x[i] = malloc((size_t)(size[i] + 1) * sizeof(float));
        for (int64_t k = 0; k < size[i]; k++)
            f->x[i][k] = (float)(check_random(seed) % 4000) / 1000.0F - 2.0F;
        f->t[i] = vector(f->x[i], size[i]);
    }
    return f;
}

static inline floats *copy_floats(const floats *from)
{
    floats *f = calloc(1, sizeof *f);
    f->n = from->n;
    for (int64_t i = 0; i < f->n; i++) {
        const size_t n_bytes = (size_t)from->t[i].size[0] * sizeof(float);
        f->x[i] = malloc(n_bytes + 1);
        memcpy(f->x[i], from->x[i], n_bytes);
        f->t[i] = vector(f->x[i], from->t[i].size[0]);
    }
    return f;
}

static inline void free_floats(floats *f)
{
    for (int64_t i = 0; i < f->n; i++)
        free(f->x[i]);
    free(f);
}

static inline double sum_of_squares(const floats *f)
{
    double sum = 0.0;
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < f->t[i].size[0]; k++)
            sum += (double)f->x[i][k] * f->x[i][k];
    return sum;
}

static inline md_list *make(const char *formula)
{
    md_list *list = NULL;
    assert_ok(md_list_create(&list, context, formula, NULL));
    return list;
}

static inline void assert_near(double got, double want, double part)
{
    if (!(fabs(got - want) <= part * (1e-30 + fabs(want))) && !(isnan(got) && isnan(want)) && got != want)
        fail_msg("%.9g, expected %.9g", got, want);
}

/* Sizes around the tiles of partial results, and none. */
static inline int64_t draw_sizes(int64_t *size, uint64_t *seed)
{
    static const int64_t odd[] = {0, 1, 3, 4095, 4096, 4097, 8192, 12289, 20000};
    const int64_t n = (int64_t)(check_random(seed) % MOST);
    for (int64_t i = 0; i < n; i++)
        size[i] = i % 2 ? odd[check_random(seed) % 9] : (int64_t)(check_random(seed) % 300);
    return n;
}

#endif
