/* Search spaces as they are: legal configs whose envelope holds, per family, of an op at sizes on an assumed GPU.
 * `md_spaces [--capability N] [--names] FORMULA|OP DTYPE "i=64, j=512" ...` prints them; `md_spaces --check FILE`
 * reads what it printed for several ops, each under a line "## OP DTYPE", and has exit status 1 where a family has
 * fewer than its line says by "at least N", or where a row or product family has no such line. */
#include "support/find_family.h"
#include "expr/catalogue.h"
#include "family/family.h"
#include "tune/tune.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Spaces that are held to a number somewhere. */
static const struct {
    const char *family;
    int32_t least;
} held[] = {{"gemm_wgmma", 200}, {"gemm_mma", 200}, {"gemm_simt", 200}, {"gemv", 200},           {"row_persistent", 40},
            {"row_looped", 40},  {"row_split", 40}, {"column", 40},     {"scan_persistent", 40}, {"scan_split", 40}};
enum { N_HELD = sizeof held / sizeof *held };

typedef struct op {
    md_fx_formula *formula;
    md_st_program *program;
} op;

static void op_close(op *o)
{
    md_st_program_destroy(&o->program);
    md_fx_formula_destroy(&o->formula);
}

static bool op_open(op *o, const char *name, const char *dtype)
{
    const md_catalogue_entry *e = md_catalogue_find(name);
    const md_fx_options options = {.dtype = md_dtype_parse(dtype)};
    op_close(o);
    const bool is_good = md_fx_formula_create(&o->formula, e ? e->formula : name, &options) == MD_OK &&
                         md_st_split(o->formula) == MD_OK && md_st_program_create(&o->program, o->formula) == MD_OK;
    if (!is_good)
        fprintf(stderr, "%s %s: %s\n", name, dtype, md_last_error());
    return is_good;
}

typedef struct sizes {
    const md_fx_formula *formula;
    int64_t size[MD_FX_MAX_DIMS];
} sizes;

static md_status take_size(void *user, const char *name, int64_t lo, int64_t hi)
{
    sizes *s = user;
    (void)hi;
    for (int32_t d = 0; d < s->formula->n_dims; d++)
        if (!strcmp(s->formula->dim[d].name, name))
            s->size[d] = lo;
    return MD_OK;
}

static bool shape_of(md_kn_shape *out, const op *o, const char *text)
{
    sizes s = {.formula = o->formula};
    if (md_fx_sizes_parse(text, take_size, &s) != MD_OK) {
        fprintf(stderr, "%s: %s\n", text, md_last_error());
        return false;
    }
    md_tn_shape(out, o->program, s.size);
    return true;
}

typedef struct count {
    const md_fa_target *target;
    const md_fa_family *family;
    const md_kn_shape *shape;
    int32_t n;
    bool prints;
} count;

static bool take(void *user, const md_fa_config *config)
{
    count *c = user;
    md_kn_envelope envelope = {0};
    char name[MD_FA_NAME];
    md_fa_envelope_of(&envelope, c->family, c->target, config);
    if (md_kn_envelope_miss(&envelope, c->shape))
        return true;
    c->n++;
    md_fa_name(name, c->family, config);
    if (c->prints)
        printf("    %s\n", name);
    return true;
}

static int32_t count_of(const md_fa_target *target, const md_fa_family *family, const md_kn_shape *shape, bool prints)
{
    count c = {target, family, shape, 0, prints};
    if (md_fa_applies(family, target))
        md_fa_each_all(target, family, shape->size, take, &c);
    return c.n;
}

static bool print_point(const op *o, const md_dev_facts *facts, const char *text, bool prints)
{
    md_kn_shape shape;
    if (!shape_of(&shape, o, text))
        return false;
    printf("%s\n", text);
    for (int32_t stage = 0; stage < o->program->n_stages; stage++) {
        const md_fa_target target = {o->program, stage, facts};
        for (const md_fa_family *const *f = md_fa_families(facts->kind); *f; f++)
            if (!(*f)->is_last_resort && md_fa_applies(*f, &target))
                printf("  %d %-16s %d\n", stage, (*f)->name, count_of(&target, *f, &shape, prints));
    }
    return true;
}

/* ---- Numbers that are held to */

static bool check_line(bool is_met[N_HELD], const op *o, const md_dev_facts *facts, const md_kn_shape *shape,
                       const char *line)
{
    char name[64];
    int stage, then, least = 0;
    if (sscanf(line, "%d %63s %d at least %d", &stage, name, &then, &least) < 3)
        return false;
    const md_fa_family *f = find_family(facts->kind, name);
    if (!f || stage < 0 || stage >= o->program->n_stages)
        return fprintf(stderr, "no such family or stage: %s", line), false;
    const md_fa_target target = {o->program, stage, facts};
    const int32_t n = count_of(&target, f, shape, false);
    if (n != then)
        printf("%s has %d configs now, not %d\n", name, n, then);
    for (int32_t i = 0; i < N_HELD; i++)
        is_met[i] |= !strcmp(held[i].family, name) && least >= held[i].least && n >= least;
    if (n < least)
        fprintf(stderr, "%s has %d configs, fewer than %d\n", name, n, least);
    return n >= least;
}

static bool check(FILE *file, const md_dev_facts *facts)
{
    char line[4096], name[2048], dtype[16];
    bool is_met[N_HELD] = {false}, is_good = true;
    md_kn_shape shape = {0};
    op o = {0};
    while (is_good && fgets(line, sizeof line, file)) {
        if (sscanf(line, "## %2047[^\n]", name) == 1) {
            char *space = strrchr(name, ' ');
            snprintf(dtype, sizeof dtype, "%.15s", space ? space + 1 : "");
            if (space)
                *space = 0;
            is_good = op_open(&o, name, dtype);
        } else if (!strncmp(line, "  ", 2)) {
            is_good = check_line(is_met, &o, facts, &shape, line);
        } else if (line[0] != '#') {
            line[strcspn(line, "\n")] = 0;
            is_good = o.program && shape_of(&shape, &o, line);
        }
    }
    op_close(&o);
    for (int32_t i = 0; i < N_HELD; i++)
        if (!is_met[i])
            is_good =
                fprintf(stderr, "%s is nowhere held to %d configs, or has fewer\n", held[i].family, held[i].least) < 0;
    return is_good;
}

static bool check_file(const char *path, const md_dev_facts *facts)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return fprintf(stderr, "%s: cannot be read\n", path), false;
    const bool is_good = check(file, facts);
    fclose(file);
    return is_good;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"capability", required_argument, NULL, 'c'},
                                            {"names", no_argument, NULL, 'n'},
                                            {"check", required_argument, NULL, 'k'},
                                            {0}};
    int32_t capability = 90;
    const char *file = NULL;
    bool prints = false;
    for (int key; (key = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (key) {
        case 'c':
            capability = atoi(optarg);
            break;
        case 'n':
            prints = true;
            break;
        case 'k':
            file = optarg;
            break;
        default:
            return 2;
        }
    md_dev_facts facts;
    op o = {0};
    if (!file && argc - optind < 3)
        return fprintf(stderr, "usage: md_spaces [--capability N] [--names] FORMULA|OP DTYPE SIZES...\n       "
                               "md_spaces [--capability N] --check FILE\n"),
               2;
    bool is_good = md_dev_cuda_assume(&facts, capability) == MD_OK;
    if (file)
        return !(is_good && check_file(file, &facts));
    is_good = is_good && op_open(&o, argv[optind], argv[optind + 1]);
    for (int i = optind + 2; i < argc && is_good; i++)
        is_good = print_point(&o, &facts, argv[i], prints);
    op_close(&o);
    return !is_good;
}
