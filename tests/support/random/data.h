/* Arguments for any formula: sizes, memory between guard bands, values, views. The memory has an image here and one on
 * the device, so that the same test runs wherever md_alloc points. */
#ifndef MD_TESTS_SUPPORT_RANDOM_DATA_H
#define MD_TESTS_SUPPORT_RANDOM_DATA_H

#include "expr/eval/eval.h"

typedef enum data_view {
    DATA_CONTIGUOUS,
    DATA_UNALIGNED, /* contiguous, one element off the 64-byte line */
    DATA_STRIDED, /* gaps between rows and, for some axes, between elements; axes in any order */
    DATA_REPEATED, /* strided, and inputs repeat an element along some axes (stride 0) */
    DATA_N_VIEWS
} data_view;

typedef struct data_options {
    data_view view;
    bool specials; /* some NaN, infinities, zeros of either sign, huge and tiny values among the inputs */
    bool bad_indices; /* some indices of gathers and scatters lie outside */
    int64_t max_work; /* sizes are picked so that no statement has more steps; 0: 200000 */
    /* Nested reductions are counted as the references compute them: once while the indices that they use stay. Kernels
     * may compute them for each element. */
    bool keeps_reductions;
    const int64_t *size; /* by dim, to be used where >= 0; NULL: all picked */
} data_options;

typedef struct data_tensor {
    md_tensor host, device; /* device.data is set by whoever copies */
    size_t n_bytes; /* of the whole memory, guards included */
    unsigned char *memory, *before; /* image, and what it was when made */
    size_t offset; /* of the first element */
} data_tensor;

typedef struct data_set {
    const md_fx_formula *formula;
    int64_t size[MD_FX_MAX_DIMS];
    data_tensor tensor[MD_FX_MAX_TENSORS]; /* by tensor id; temps are empty */
    double real[MD_FX_MAX_SCALARS];
    int64_t integer[MD_FX_MAX_SCALARS];
} data_set;

/** Picks sizes (0, 1, odd, prime, powers of 2 and their neighbours), makes and fills everything. False where no sizes
 * fit. */
bool data_make(data_set *out, const md_fx_formula *formula, uint64_t seed, const data_options *options);
void data_finish(data_set *d);
/** The arguments of a call, on the host's images or the device's. Returns their number. */
int32_t data_args(md_arg *out, data_set *d, bool on_device);
/** Binds the host's images. */
md_status data_bind(md_fx_binding *out, data_set *d);
/** Sets the images back to what they were when made: outputs poisoned. */
void data_reset(data_set *d);
/** True if all bytes but the elements of outputs are as they were; says in `text` which tensor was written around or at
 * all. */
bool data_is_intact(const data_set *d, char *text, size_t n_text);
/** "b=2, n=17": the sizes of dims that are not static. */
void data_sizes(char *text, size_t n_text, const data_set *d);

#endif
