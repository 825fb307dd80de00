/* Combos: many calls without order as one launch, for lists of tensors. man 3 multidispatch is the guide.
 *
 * A combo has parts, and a part is an op with a list of items. An item is one call of the op: its own tensors with
 * their own sizes, strides and memory. All items of all parts are computed as if each were one md_call, in no order,
 * with the same bits. On the host device one parallel loop runs them; on a GPU kernels that take many items do, where
 * that is faster and once they are compiled; until then each item has launches of its own.
 *
 * An optimizer's step over a list of parameters is a combo of one part. The rules of md/md.h hold. In addition:
 *  - Items have no order, so no output of an item may overlap any tensor of another item. That is checked whenever
 *    addresses change. Within an item the rules of md_call hold: an output may be exactly an input.
 *  - A combo keeps sizes, strides, addresses and scalars of its items, not the caller's structs. The memory of the
 *    tensors stays the caller's, and must be there at each run.
 *  - A combo may be destroyed before or after its ops and its context. After the context only md_combo_destroy is
 *    possible; other functions fail with INVALID_ARGUMENT.
 *  - Threads: all functions may be called at once. One lock of the combo serialises them: on the host device a run
 *    holds it to its end, on a GPU until its work is enqueued.
 * SPDX-License-Identifier: MIT */
#ifndef MD_COMBO_H
#define MD_COMBO_H

#include <md/md.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MD_COMBO_MAX_ITEMS (INT64_C(1) << 20) /**< of all parts together */

typedef struct md_combo md_combo; /**< items that are bound; thread-safe */

/** An op with a list of items. */
typedef struct md_combo_part {
    md_op *op; /**< all ops of a combo are of one context */
    /** [n_items][n_args]: what md_call takes, item after item. Sizes to choose by (md_as) are not allowed. */
    const md_arg *args;
    int32_t n_args; /**< of one item: md_op_n_args */
    int64_t n_items; /**< 0: nothing to do, and `args` may be NULL */
} md_combo_part;

/** Runs all items of `n` parts. The combo is found by the items' sizes, strides and alignment, as md_call finds its
 * shape: a list that was met before only takes addresses and scalars. The context remembers the last 64 lists.
 * Empty lists are fine, and items without elements are skipped.
 * @return MD_INVALID_ARGUMENT for whatever md_call refuses (the message has part and item), for an output that overlaps
 * a tensor of another item (both are named), for an op of another context, and for more than MD_COMBO_MAX_ITEMS items;
 * MD_OUT_OF_MEMORY. Nothing was written then. After a later failure outputs are undefined. */
MD_API md_status md_combo_call(md_context *context, md_stream stream, const md_combo_part *parts, int32_t n);

/** Checks the items of `n` parts once and chooses their kernels, to run them many times. Fails as md_combo_call.
 * Whether items share a launch is chosen as the ops' variants are: by the model; with MD_SELECT_MEASURE and _HYBRID by
 * times of real runs of both kinds, which later processes find in the store; by distance they always share it. */
MD_API md_status md_combo_bind(md_combo **out, md_context *context, const md_combo_part *parts, int32_t n);
MD_API void md_combo_destroy(md_combo **combo);

/** New addresses for one tensor argument of a part: `data[i]` of item i, n_items of them. Sizes, strides and dtypes
 * stay. Overlaps are checked at the next run, so that several arguments may move before it.
 * @return MD_INVALID_ARGUMENT for a part or an argument out of range, a scalar, and an address that is NULL or not
 * aligned to its element: then no address has changed. */
MD_API md_status md_combo_point(md_combo *combo, int32_t part, int32_t arg, void *const *data);

/** Runs all items. `scalars`: one for each scalar argument of each part, in order (those of part 0, then those of part
 * 1, ...), for all items of the part; they stay for later runs. `n` 0: the scalars of before, which may differ by item.
 * A size that no tensor gives counts as a scalar here, and must be that of every item.
 * While the stream is captured it only launches; addresses and scalars are captured by value.
 * @return MD_INVALID_ARGUMENT for another number of scalars or a real for an integer, and for overlaps between items
 * (both are named): nothing was written then; and for an index out of range (host), as md_call. */
MD_API md_status md_combo_run(md_combo *combo, md_stream stream, const md_arg *scalars, int32_t n);

/** Says how the items are run: parts, which items share a launch and why others have launches of their own, the
 * kernels, what was chosen between one launch and many, and how often items of each shape were run in which way. */
MD_API md_status md_combo_explain(md_combo *combo, int32_t json, md_write_fn write, void *user);

/** What md_combo_tune is to do. */
typedef struct md_combo_tune_options {
    double budget_s; /**< no step begins later; 0: 10 */
    int32_t max_builds; /**< steps at most, each a kernel to build; 0: 12 */
    int32_t json; /**< nonzero: the report is one JSON object a line, else text */
    /** Fields that are tuned before all others, in this order: "X1 Y1 threads". Kernels have the numbers that the
     * report gives them; X and Y are a block's columns and rows, R what it reads of a reduced row at once; other
     * fields have their own names. A name without a number is meant for all kernels. NULL: MD_COMBO_FIELD_ORDER, else
     * the heaviest kernel first: its block dimensions, those of the others, other fields, threads last. */
    const char *field_order;
    /** The most that fields may be: "X0=64 Y=32". NULL: MD_COMBO_FIELD_LIMITS. In any case no block is larger than the
     * next power of two of an item's own size. */
    const char *field_limits;
    md_write_fn write; /**< takes the report: each step with its time; may be NULL */
    void *user;
} md_combo_tune_options;

/** Tunes the kernels of a combo together: doubles or halves one field at a time, times the whole combo, and keeps what
 * is faster by 2% and by twice the spread, until nothing is. Steps keep every bit of the results, so fields that would
 * change the order of a sum stay as they are. The winner serves from now on, and is kept in the store, where combos of
 * equal formulas, sizes and strides find it when they are made. Runs on copies of all tensors: memory of the caller is
 * only read.
 * @return MD_INVALID_ARGUMENT for bad options and overlaps between items; MD_OUT_OF_MEMORY where the copies take more
 * than 5% of the free memory (on the host 256 MiB); MD_UNSUPPORTED where items only run by calls of their own, and
 * while the stream is captured. The combo is as before then. */
MD_API md_status md_combo_tune(md_combo *combo, md_stream stream, const md_combo_tune_options *options);

#ifdef __cplusplus
}
#endif
#endif
