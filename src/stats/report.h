/* Reports: of a formula, of a choice, of captured graphs; digests of statistics, and the file that they go to. */
#ifndef MD_STATS_REPORT_H
#define MD_STATS_REPORT_H

#include "base/hash.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "dispatch/call/call.h"
#include "dispatch/compile/compile.h"
#include "dispatch/op.h"

#include <md/md.h>
#include <stdbool.h>

/* ---- orders.c */

/* The orders of sums of products, for the reports of formulas and of calls. */

/** A list of objects at sizes (by dim id): sum, of which statement; order; operations; written; largest. */
json_t *md_ss_orders_json(const md_ds_compiled *compiled, const int64_t *size);
/** Lines of that list; none where it is empty. `at` says the sizes; "": they need not be said. */
void md_ss_orders_print(md_strbuf *out, const json_t *orders, const char *at);

/* ---- check.c */

/* Says what a formula becomes, before anything is compiled. */

/** Dims and where their sizes come from, stages with their families, what is slow and why, and what is checked at run
 * time. NULL: memory is short. */
json_t *md_ss_check_report(const md_ds_compiled *compiled);
/** The text of that report. */
void md_ss_check_print(md_strbuf *out, const json_t *report);

/* ---- explain.c, explain_print.c */

/* Explains which variant serves a shape, and why. */

/** Prints all candidates of all stages at a bound shape, and the pick, as a table or as one JSON object. */
md_status md_ss_explain(md_strbuf *out, md_ds_op *op, const md_ds_bound *bound, bool json);
/** The text of that report. */
void md_ss_explain_print(md_strbuf *out, const json_t *report);

/* ---- capture.c */

/* The choices that a captured graph holds. */

/** Lists the kernels of the runtime's ops in a graph (NULL: the graph that the stream is captured into), with variant,
 * shape and count, as a table or as one JSON object. Shapes are read from the parameters in the graph. UNSUPPORTED if
 * the device has no graphs. */
md_status md_ss_capture(md_strbuf *out, md_ds_runtime *runtime, md_stream stream, void *graph, bool json);

/* ---- digest.c */

/* A digest of the choices of ops. Processes that must run the same kernels (the ranks of a model) can compare it. */

typedef struct md_ss_choices {
    int64_t n;
    md_digest128 *choice;
    bool failed; /* memory was short */
} md_ss_choices; /* a zeroed struct is empty */

/** Adds the choices of an op: formula, sizes and variants of every shape, without counts, times and reasons. */
void md_ss_choices_add(md_ss_choices *choices, md_ds_op *op);
/** The digest of the set of choices: their order and number do not matter. Frees the choices. OUT_OF_MEMORY. */
md_status md_ss_choices_digest(md_digest128 *out, md_ss_choices *choices);

/* ---- path.c */

/* The file that MD_STATS names. */

/** True if the pattern names another file in each process: it has a %p. */
bool md_ss_path_has_pid(const char *pattern);
/** Replaces %p by the process id and %% by %. The number-th context (from 1 on) that has this pattern in the process
 * gets a file of its own: number 2 of "a.json" is "a.2.json". Only files are numbered, no terminals, pipes and "-".
 * IO if it is too long. */
md_status md_ss_path(char out[4096], const char *pattern, int32_t number);

#endif
