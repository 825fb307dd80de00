/* bench: kernel times of boards, of one op, or of all its variants.
 *
 * On a GPU, k launches on k sets of tensors run one after the other between two events, after 2.5 times the cache was
 * read. So every launch finds a cold cache, and the time holds no time of the host. */
#include "bench/bench.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static md_status fill_case(bench *b, bench_case *c, const char *formula)
{
    md_op *op = NULL;
    bool is_own;
    md_status s = bench_op_of(&op, &is_own, b, formula, c->dtype);
    if (s == MD_OK)
        s = bench_fill(b, c, op);
    if (s == MD_OK)
        s = bench_add(c, op, is_own);
    if (s != MD_OK && is_own)
        md_op_destroy(&op);
    if (s == MD_OK)
        s = bench_add_variants(b, c, formula, op);
    if (s == MD_OK)
        s = bench_add_copy(b, c);
    return s;
}

bool bench_is_late(const bench *b)
{
    return b->o->budget > 0.0 && cli_now_us() - b->start_us > b->o->budget * 1e3;
}

/* True if the case of a board is of this part, was not timed by an earlier run, and there is time for it. */
static bool is_due(const bench *b, int number, const char *op, md_dtype dtype, const char *sizes)
{
    char key[BENCH_KEY];
    bench_key_of_case(key, op, dtype, sizes);
    return number % b->o->n_parts == b->o->part - 1 && !bench_is_late(b) && !bench_is_done(&b->done, key);
}

static int bench_case_run(bench *b, const char *formula, md_dtype dtype, const char *sizes)
{
    bench_case *c = calloc(1, sizeof *c);
    if (!c)
        return cli_fail("out of memory");
    c->name = formula;
    c->sizes = sizes;
    c->dtype = dtype ? dtype : MD_F32;
    md_status s = fill_case(b, c, formula);
    if (s == MD_OK)
        s = bench_race(b, c, 0.0);
    int status = s == MD_OK ? CLI_OK : cli_fail("%s %s: %s", formula, sizes, md_last_error());
    if (s == MD_OK)
        bench_print(b, c);
    bench_free(b, c);
    free(c);
    return status;
}

/* Runs a line "op dtype name=size ...". */
static int bench_line(bench *b, char *line, const char *path, int number)
{
    char *rest = NULL;
    line[strcspn(line, "#\n")] = 0;
    char *op = strtok_r(line, " \t", &rest);
    if (!op)
        return CLI_OK;
    char *dtype = strtok_r(NULL, " \t", &rest);
    md_dtype t = dtype ? md_dtype_parse(dtype) : MD_DTYPE_DEFAULT;
    if (t == MD_DTYPE_DEFAULT)
        return cli_usage("%s:%d: expected \"op dtype name=size ...\", with a dtype as second word", path, number);
    while (rest && isspace((unsigned char)*rest))
        rest++;
    const char *sizes = rest ? rest : "";
    return is_due(b, b->n_met++, op, t, sizes) ? bench_case_run(b, op, t, sizes) : CLI_OK;
}

static bool is_blank(const char *line)
{
    const char first = line[strspn(line, " \t")];
    return !first || first == '#' || first == '\n';
}

/* How many cases the boards have, for the time that is left. */
static int count_cases(const cli_options *o)
{
    char line[1024];
    int n = 0;
    for (int i = 0; i < o->n; i++) {
        FILE *f = fopen(o->arg[i], "r");
        while (f && fgets(line, sizeof line, f))
            n += !is_blank(line);
        if (f)
            fclose(f);
    }
    return n;
}

static int bench_board(bench *b, const char *path)
{
    char line[1024];
    int status = CLI_OK;
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_usage("cannot open the board '%s'", path);
    for (int number = 1; status == CLI_OK && fgets(line, sizeof line, f); number++) {
        cli_progress_part(b->n_done, b->n_cases);
        b->n_done += !is_blank(line);
        status = strlen(line) + 1 == sizeof line ? cli_usage("%s:%d: the line is too long", path, number)
                                                 : bench_line(b, line, path, number);
    }
    fclose(f);
    return status;
}

/* A share of what is left of two minutes for each case: on a busy machine there are fewer samples. */
static double share_ms(const bench *b, int left)
{
    static const double all_us = 110e6, least_ms = 300.0;
    const double ms = (all_us - (cli_now_us() - b->start_us)) / 1e3 / left;
    return ms > least_ms ? ms : least_ms;
}

/* Some of everything, at sizes of no power of two, too. */
static int bench_quick(bench *b)
{
    static const char *const board[] = {"add f32 i=2048 j=2048",
                                        "gelu f32 i=1000 j=1001",
                                        "transpose f32 i=1023 j=2049",
                                        "softmax f32 i=4096 j=256",
                                        "softmax f32 i=100 j=10007",
                                        "layer_norm f32 i=1024 j=1024",
                                        "rms_norm bf16 i=333 j=4096",
                                        "sum f32 i=16 j=1048576",
                                        "column_sum f32 i=4096 j=512",
                                        "cumsum f32 i=64 j=65536",
                                        "embedding f32 i=1000 j=768 E.0=32000",
                                        "linear f32 b=1 n=4096 k=1024",
                                        "linear f32 b=64 n=1024 k=1024",
                                        "linear f32 b=777 n=500 k=1000",
                                        "linear bf16 b=16 n=4096 k=1024"};
    int status = CLI_OK;
    b->n_cases = sizeof board / sizeof *board;
    for (int i = 0; i < b->n_cases && status == CLI_OK; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s", board[i]);
        cli_progress_part(i, b->n_cases);
        b->case_ms = share_ms(b, b->n_cases - i) / 2.0; /* the other half: variants are built before it */
        status = bench_line(b, line, "quick", i + 1);
    }
    return status;
}

static int run_bench(bench *b)
{
    if (b->o->board && strcmp(b->o->board, "quick"))
        return cli_usage("--board: 'quick' is the one that is built in, not '%s'", b->o->board);
    if (b->o->board)
        return b->o->n ? cli_usage("bench --board takes no argument, but got '%s'", b->o->arg[0]) : bench_quick(b);
    if (b->o->n && (!strcmp(b->o->arg[0], "table") || !strcmp(b->o->arg[0], "sweep")))
        return bench_table(b, !strcmp(b->o->arg[0], "sweep"));
    if (b->o->sizes || b->o->n == 0) {
        if (b->o->n != 1)
            return cli_usage("bench takes boards, or one formula or op with --sizes");
        return bench_case_run(b, b->o->arg[0], b->o->op.dtype, b->o->sizes);
    }
    int status = CLI_OK;
    b->n_cases = count_cases(b->o);
    for (int i = 0; status == CLI_OK && i < b->o->n; i++)
        status = bench_board(b, b->o->arg[i]);
    return status;
}

int cli_bench(const cli_options *o)
{
    bench b = {.o = o, .start_us = cli_now_us()};
    if (o->compares)
        return bench_compare(o);
    if (o->resume && !o->output)
        return cli_usage("bench --resume goes on with the file of --output, which is missing");
    if (o->output && !(b.output = o->resume ? bench_resume(&b.done, o->output) : fopen(o->output, "w")))
        return cli_fail("cannot write '%s'", o->output);
    int status = CLI_FAILED;
    bool is_open = cli_open_context(&b.context, o) == MD_OK;
    if (is_open)
        b.device = device_of(b.context);
    if (is_open && sweep_make(&b.sweep, b.context, &b.device) == MD_OK)
        status = run_bench(&b);
    else
        cli_fail_md();
    sweep_free(&b.sweep);
    md_op_destroy(&b.copy);
    for (int i = 0; i < b.n_ops; i++) {
        md_op_destroy(&b.op[i].op);
        free(b.op[i].formula);
    }
    bench_done_free(&b.done);
    cli_close_context(&b.context);
    return cli_close_output(b.output, o->output, status);
}
