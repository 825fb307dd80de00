/* How fast the library of products (CBLAS) is on this machine: times of a few products of f32, which calibrate the
 * model of the family that calls it. */
#include "device/host/host.h"

#include "base/clock.h"

#include "md_build_config.h"

#include <math.h>
#include <stdlib.h>

int32_t md_dev_library_rows(int32_t shape)
{
    /* libraries compute tiles of rows, so a few rows past a tile cost as much as a tile */
    static const int32_t rows[MD_DEV_LIBRARY_SHAPES] = {16, 64, 256, 9, 33, 77, 1, 2};
    return rows[shape];
}

#if MD_HAVE_BLAS

#include <cblas.h>

enum { N = MD_DEV_LIBRARY_COLUMNS, K = MD_DEV_LIBRARY_DEPTH, MOST_ROWS = 256 };

static double time_of(float *space, int32_t rows)
{
    const float *a = space, *b = a + MOST_ROWS * K;
    float *c = space + (MOST_ROWS + N) * K;
    const uint64_t start = md_clock_ns();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, N, K, 1.0F, a, K, b, K, 0.0F, c, N);
    return (double)(md_clock_ns() - start) * 1e-3;
}

/* The best of a few tries, in us; 0 where the two best do not agree in time. */
static double sure_time_of(float *space, int32_t rows, uint64_t end)
{
    enum { TRIES = 4, MOST_TRIES = 24 };
    static const double AGREES = 1.1;
    double best = INFINITY, second = INFINITY;
    (void)time_of(space, rows); /* starts threads, touches memory */
    for (int32_t i = 0; i < TRIES || (second > AGREES * best && i < MOST_TRIES && md_clock_ns() < end); i++) {
        const double us = time_of(space, rows);
        second = fmin(second, fmax(us, best));
        best = fmin(best, us);
    }
    return second <= AGREES * best ? best : 0;
}

void md_dev_host_measure_library(md_dev_facts *facts)
{
    enum { MOST_NS = 12000000, SHAPES = MD_DEV_LIBRARY_SHAPES };
    double us[SHAPES] = {0};
    float *space = calloc((size_t)((MOST_ROWS + N) * K + MOST_ROWS * N), sizeof *space);
    const uint64_t end = md_clock_ns() + MOST_NS;
    bool is_sure = space != NULL;
    for (int32_t s = 0; s < SHAPES && is_sure; s++) {
        us[s] = sure_time_of(space, md_dev_library_rows(s), end);
        is_sure = us[s] > 0;
    }
    for (int32_t s = 0; s < SHAPES; s++)
        facts->library_us[s] = is_sure ? us[s] : 0;
    free(space);
}

#else

void md_dev_host_measure_library(md_dev_facts *facts)
{
    (void)facts;
}

#endif
