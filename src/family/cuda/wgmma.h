/* Hopper's matrix instruction: a function of its own for each number of columns, since all its sums are registers. */
#ifndef MD_FAMILY_CUDA_WGMMA_H
#define MD_FAMILY_CUDA_WGMMA_H

#include <stdbool.h>
#include <stdint.h>

struct md_strbuf;

/* Whether what the sums were is kept. */
typedef enum md_fa_wgmma_keeps {
    MD_FA_WGMMA_ADDS,
    MD_FA_WGMMA_FIRST, /* sums are taken for zeros */
    MD_FA_WGMMA_ASKED /* the function's last argument says it: kept unless it is 0 */
} md_fa_wgmma_keeps;

typedef struct md_fa_cuda_wgmma {
    const char *name; /* of the function */
    const char *a, *b; /* PTX's types of the operands: "bf16" */
    int32_t columns, depth; /* of B; of a step: 32 bytes of K */
    md_fa_wgmma_keeps keeps;
    bool is_integer; /* sums are integers, in registers of floats */
    bool is_in_registers; /* A, four words a thread; else both are matrices in shared memory */
    /* 16-bit operands: ", 0" for each matrix in shared memory along K, ", 1" for one across it; else NULL */
    const char *order;
} md_fa_cuda_wgmma;

/** Prints `void NAME(float (&sums)[columns / 2], a, b)`: one step of a product of 64 rows. a: a descriptor of 64 bits,
 * or four words; b: a descriptor; then perhaps `int keep`. Each thread of a warpgroup has columns / 2 sums. */
void md_fa_cuda_wgmma_print(struct md_strbuf *out, const md_fa_cuda_wgmma *instruction);

#endif
