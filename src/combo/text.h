/* One kernel for many items: the texts of ordinary kernels as bodies in namespaces, and a table that says what each
 * block does. No size and no count is in the text. */
#ifndef MD_COMBO_TEXT_H
#define MD_COMBO_TEXT_H

#include "build/build.h"

enum { MD_CB_BODIES = 8, MD_CB_HEAD = 1 };

/* The table, which is the kernel's parameter, in words of 8 bytes:
 *   0      items
 *   1..    words that all items of a body share, body after body
 *   halves by item the first of its blocks, then by item a reference: 3 bits of the body, 29 of the place of its words
 *   items  each: grid (x, y as halves), then the words of the body that differ by item */
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
    int32_t table_words; /* of the parameters */
} md_cb_kernel;

/** Finds which parameters of each body differ by item, and prints the text. UNSUPPORTED if a body's text has a form
 * that is not known. */
md_status md_cb_text_print(md_kn_launch_source *out, md_cb_kernel *kernel);

#endif
