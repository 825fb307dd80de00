/* Search spaces as they are: legal configs whose envelope holds, per family, of an op at sizes on an assumed GPU.
 * `md_spaces [--capability N] [--names] FORMULA DTYPE "i=64, j=512" ...`. */
#include "expr/catalogue.h"
#include "family/family.h"
#include "tune/tune.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    c->family->envelope(&envelope, c->target, config);
    if (md_kn_envelope_miss(&envelope, c->shape))
        return true;
    c->n++;
    md_fa_name(name, c->family, config);
    if (c->prints)
        printf("    %s\n", name);
    return true;
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

static int print_point(const md_st_program *program, const md_dev_facts *facts, const char *text, bool prints)
{
    sizes s = {.formula = program->formula};
    md_kn_shape shape;
    if (md_fx_sizes_parse(text, take_size, &s) != MD_OK)
        return 1;
    printf("%s\n", text);
    for (int32_t stage = 0; stage < program->n_stages; stage++) {
        const md_fa_target target = {program, stage, facts};
        md_tn_shape(&shape, program, s.size);
        for (const md_fa_family *const *f = md_fa_families(facts->kind); *f; f++) {
            count c = {&target, *f, &shape, 0, prints};
            if (!(*f)->applies(&target) || (*f)->is_last_resort)
                continue;
            md_fa_each_all(&target, *f, shape.size, take, &c);
            printf("  %d %-16s %d\n", stage, (*f)->name, c.n);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"capability", required_argument, NULL, 'c'}, {"names", no_argument, NULL, 'n'}, {0}};
    int32_t capability = 90;
    bool prints = false;
    for (int key; (key = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (key == 'c')
            capability = atoi(optarg);
        else if (key == 'n')
            prints = true;
        else
            return 2;
    if (argc - optind < 3)
        return fprintf(stderr, "usage: md_spaces [--capability N] [--names] FORMULA|OP DTYPE SIZES...\n"), 2;
    md_dev_facts facts;
    md_fx_formula *f = NULL;
    md_st_program *program = NULL;
    const md_catalogue_entry *e = md_catalogue_find(argv[optind]);
    const md_fx_options o = {.dtype = md_dtype_parse(argv[optind + 1])};
    int status = md_dev_cuda_assume(&facts, capability) != MD_OK || md_fx_formula_create(&f, e ? e->formula : argv[optind], &o) != MD_OK ||
                 md_st_split(f) != MD_OK || md_st_program_create(&program, f) != MD_OK;
    for (int i = optind + 2; i < argc && !status; i++)
        status = print_point(program, &facts, argv[i], prints);
    if (status)
        fprintf(stderr, "%s\n", md_last_error());
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&f);
    return status;
}
