/* What the store has of combos: which way is faster, and what tuning found. */
#ifndef MD_COMBO_STORED_H
#define MD_COMBO_STORED_H

#include "combo/combo.h"
#include "tune/stored/stored.h"

/** All that an entry depends on, but sizes and environment; malloc'ed text, NULL: memory is short. */
char *md_cb_store_key(const md_cb *cb);
/** Of the items' sizes and strides, and of addresses what ways to run depend on. False: memory is short. */
bool md_cb_list_digest(md_digest128 *out, const md_cb *cb, bool with_addresses);

/** What was measured for this list of items, here or by another process, under conditions like those of now. */
bool md_cb_record_find(md_cb_how *how, double *us, const md_cb *cb);
/** Has a verdict written in the background. */
void md_cb_record_put(const md_cb *cb, md_cb_how how, double us);

/** Takes the choices that tuning found for equal formulas, sizes and strides, on this device with these versions. */
void md_cb_swaps_find(md_cb *cb);
/** Writes the choices of all kernels, also of those that stay, and the combo's time with them. */
md_status md_cb_swaps_put(const md_cb *cb, int32_t n, const md_cb_choice *choice, double us);

#endif
