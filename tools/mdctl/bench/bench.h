/* A run of bench, a line of a board, and its contenders. */
#ifndef MDCTL_BENCH_H
#define MDCTL_BENCH_H

#include "bench/copier.h"
#include "bench/resume.h"
#include "common/data.h"
#include "common/device.h"
#include "common/explained.h"
#include "common/sweep.h"
#include "common/timing.h"

enum { BENCH_SETS = 128, BENCH_CONTENDERS = 160, BENCH_OPS = 64 };

/* An op that serves all lines of a board which name it. */
typedef struct bench_op {
    char *formula; /* own copy */
    md_dtype dtype;
    md_op *op;
} bench_op;

typedef struct bench {
    const cli_options *o;
    md_context *context;
    FILE *output;
    bench_done done; /* --resume: what the file has */
    double start_us, case_ms; /* case_ms: for the race of a case; 0: as long as it takes */
    int n_cases, n_done, n_met; /* of all boards; met: lines that are cases, so far */
    int n_ops;
    bench_op op[BENCH_OPS];
    cli_device device;
    md_op *copy; /* GPU */
    sweep sweep;
} bench;

typedef struct contender {
    const char *peer; /* "md", "copy" */
    md_op *op; /* NULL: copy */
    bool is_own; /* made for this case: destroyed with it */
    md_launch *launch[BENCH_SETS];
    md_choice choice;
    timing kernel, call;
} contender;

typedef struct bench_case {
    const char *name, *sizes;
    md_dtype dtype;
    double flops, bytes;
    json_t *explained; /* the pick; NULL where nothing is written as JSON */
    roofline roof;
    bool is_brief; /* kernels only, not calls; on a GPU a sample is one pass over the sets */
    int n_sets, n;
    data_set set[BENCH_SETS];
    contender who[BENCH_CONTENDERS];
    copier *copier; /* host */
    void *from, *to;
    const sweep *sweep; /* the bench's */
    data_set copy[BENCH_SETS];
} bench_case;

/** The op of a formula, made once a bench. *is_own: it could not be kept, so the case must destroy it. */
md_status bench_op_of(md_op **out, bool *is_own, bench *b, const char *formula, md_dtype dtype);
/** Makes the sets of tensors of a case. Its sizes and dtype are set. */
md_status bench_fill(bench *b, bench_case *c, md_op *op);
/** Resolves a contender on every set. UNSUPPORTED if a pinned variant does not fit the shape. */
md_status bench_add(bench_case *c, md_op *op, bool is_own);
/** Adds every variant of the op's pool, unless --quick or --pin. */
md_status bench_add_variants(bench *b, bench_case *c, const char *formula, md_op *op);
/** Adds a copy of as many bytes as the op reads and writes. */
md_status bench_add_copy(bench *b, bench_case *c);
/** Times all contenders, interleaved. far > 0: those slower than far x the best get a few samples or one look only. */
md_status bench_race(bench *b, bench_case *c, double far);
void bench_free(bench *b, bench_case *c);
/** True if --budget is spent: what is missing is left to a run with --resume. */
bool bench_is_late(const bench *b);

/** The matrix of TorchInductor's multi-kernel: kernels made for one hint each at all sizes, against dispatch. */
int bench_table(bench *b, bool is_sweep);

/** Prints what became of each pick from one recorded run to another; CLI_FAILED if one is slower beyond the noise. */
int bench_compare(const cli_options *o);

/** A line for each contender: a row or JSON on stdout, and JSON in the file of --output. */
void bench_print(bench *b, bench_case *c);

#endif
