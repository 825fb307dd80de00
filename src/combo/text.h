/* One kernel for many items: the texts of ordinary kernels as bodies in namespaces, and a table that says what each
 * block does. No size and no count is in the text. */
#ifndef MD_COMBO_TEXT_H
#define MD_COMBO_TEXT_H

#include "build/build.h"

enum { MD_CB_BODIES = 8, MD_CB_WARP_THREADS = 256, MD_CB_WARP_SIZES = 256 };

/* The table, in words of 8 bytes. The head is always the kernel's parameter:
 *   0      items
 *   1, 2   only of a far table: its address; how many blocks have one start (as a power of two), and as the upper half
 *          how many starts there are
 *   then   words that all items of a body share, body after body
 * The rest lies behind the head, or in device memory (a far table):
 *   halves only of a far table: by start the item of its first block; padded to a word
 *   halves by item the first of its blocks, then by item a reference: 3 bits of the body, 29 of the place of its words,
 *          counted from the head, or from the far table
 *   items  each: grid (x, y as halves), then the words of the body that differ by item
 * Where each warp takes an item, the rest is only items, `stride` words each: 24 bits of its points, 24 of its rows and
 * in the upper 3 the body, then the words of the body. */
typedef struct md_cb_body {
    const md_bd_variant *variant;
    int32_t launch, threads; /* threads: that it uses, at most those of the kernel */
    bool shares_scalars; /* all items have the same scalars */
    int32_t n_own, n_shared; /* words of each item (without the grid), and of all */
    int16_t own[MD_KN_MAX_PARAMS], shared[MD_KN_MAX_PARAMS]; /* numbers of parameters */
} md_cb_body;

typedef struct md_cb_kernel {
    int32_t n;
    md_cb_body body[MD_CB_BODIES];
    int32_t threads; /* of a block */
    int32_t min_blocks; /* how many an SM shall hold, which bounds registers; 0: there is no such bound */
    int32_t table_words; /* of the parameters */
    bool is_far; /* items lie in device memory */
    bool by_warps; /* each warp computes an item */
} md_cb_kernel;

/** Words in front of those that all items share. */
int32_t md_cb_text_head(const md_cb_kernel *kernel);
/** Words of an item where warps take items, known once the text was printed. */
int32_t md_cb_text_stride(const md_cb_kernel *kernel);

/** Finds which parameters of each body differ by item, and prints the text. UNSUPPORTED if a body's text has a form
 * that is not known. */
md_status md_cb_text_print(md_kn_launch_source *out, md_cb_kernel *kernel);

#endif
