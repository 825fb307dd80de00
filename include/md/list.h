/* Formulas over lists of tensors: an optimizer's step with a global norm, say. man 3 multidispatch is the guide.
 *
 *     scalar max_norm, lr;
 *     let n = sum[t,i](f32(G@t[i]) * f32(G@t[i]));
 *     let c = min(1, max_norm / (sqrt(n) + 1e-6));
 *     P@t[i] = P@t[i] - lr * c * G@t[i]
 *
 * X@t[i] is an element of item t of list X. The rules of formulas hold for each item; in addition:
 *  - The name after '@' is the list index, one for the formula. It is no number: it stands after '@', and among the
 *    indices of sum, prod, max, min, any and all, which then run over all items, too. Without it they are an item's.
 *  - Dims belong to each item: items may have different sizes. All lists of a call have the same length, which the
 *    formula does not say. Lists and items may be empty: a sum of nothing is 0; a max of nothing is refused, as
 *    for one tensor, but empty items among others are left out.
 *  - A result with '@' is computed for each item. One without is a number for all items and has no axes: it is written
 *    N or N[], and reads items inside of reductions over the list index only. `let` works with both.
 *  - A tensor that is read without '@' is one for all items.
 *  - Statements are computed one after the other, and a list may be read and then written: the update is in place.
 *
 * The formula is computed in passes over the lists: one for reductions that need no other's result, one for all items'
 * results that need none of those. Between them one small kernel ends the reductions. A reduction adds partial results
 * of 4,096 elements each, in an order that depends on the sizes of the items only.
 * SPDX-License-Identifier: MIT */
#ifndef MD_LIST_H
#define MD_LIST_H

#include <md/md.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct md_list md_list; /**< a formula over lists, with its kernels; thread-safe */

/** What a formula over lists expects as argument number i. The name belongs to the md_list. */
typedef struct md_list_info {
    const char *name;
    int32_t is_scalar, is_list; /**< neither: one tensor for all items */
    int32_t is_input, is_output; /**< both: updated in place */
    md_dtype dtype; /**< of a scalar: f32, f64 or i64 */
    int32_t rank; /**< of each item */
} md_list_info;

/** Reads a formula over lists and makes its kernels, as md_op_create does. Destroy it before its context. `options` may
 * be NULL. Those that name dims, variants or kernels (sizes, hints, weights, pin, custom, name) must be NULL. Without
 * `numeric` the reductions are MD_NUMERIC_BATCH_INVARIANT; with it, all kernels follow it.
 * @return MD_INVALID_ARGUMENT with line, column and caret for a bad formula, and for one without lists. */
MD_API md_status md_list_create(md_list **out, md_context *context, const char *formula, const md_op_options *options);
MD_API void md_list_destroy(md_list **list);

/** Named formula over lists i, which md_list_create takes by its name: name, formula, one line of description; all NULL
 * beyond the end. */
MD_API void md_list_catalogue(int32_t i, const char **name, const char **formula, const char **description);

/** Number of arguments: tensors and scalars in order of first appearance, without lets. */
MD_API int32_t md_list_n_args(const md_list *list);
/** Describes argument i. @return MD_INVALID_ARGUMENT if i is out of range. */
MD_API md_status md_list_arg(md_list_info *out, const md_list *list, int32_t i);

/** Computes the formula: md_ts for lists, md_t for other tensors, md_s and md_i for scalars. No output of an item may
 * overlap a tensor of another item. The first call of a stream with more or larger items than before allocates memory
 * (2 bytes for every KiB that a reduction of f32 reads). A captured call allocates memory of its own, which is freed
 * with the md_list: that must outlive the graph.
 * @return MD_INVALID_ARGUMENT for what md_combo_call refuses (item and argument are named), and for lists of different
 * lengths; MD_OUT_OF_MEMORY. Nothing was written then, unless the
 * formula has several passes with results for the caller. */
MD_API md_status md_list_call(md_list *list, md_stream stream, const md_arg *args, int32_t n_args);

/** The formulas of the passes. md_check_formula says more of each. */
MD_API md_status md_list_explain(md_list *list, int32_t json, md_write_fn write, void *user);

#ifdef __cplusplus
}
#endif
#endif
