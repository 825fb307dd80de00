/* The error of a cost model on recorded times, for any values of its constants: what tools/fit asks. Usage:
 * `md_fit_model [--list] RECORDS`. RECORDS has a line for each time, of words between tabs: capability of the device,
 * formula or catalogue op, dtype, sizes ("n=4, k=8"), variant, us, static sizes ("r=3,s=3") or nothing. Each line of
 * stdin lists constants to set, "FILE:NAME=value ...", where an array has NAME0, NAME1 and so on. For each line it
 * prints the root mean square of log(model / recorded), in which kernels near the best of their shape weigh most; the
 * mean regret of the model's pick among what was recorded; that of a pick among all that are modelled near the least,
 * which every constant changes; and how many times were used. The line "times" asks for the time of each record,
 * "inputs" for what trees ask about it. --list prints the constants. */
#include "base/table.h"
#include "expr/catalogue.h"
#include "expr/node.h"
#include "family/family.h"
#include "tune/model/trees.h"
#include "tune/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONSTANTS = 1024, MAX_FORMULAS = 64, LINE = 65536 };
/* SHARP: one that is modelled 1/SHARP slower is picked 1/e as often by a soft pick. */
static const double MOST_REGRET = 1, SHARP = 25;

typedef struct constant {
    char name[96]; /* "wgmma_fit.h:START" */
    double *value;
} constant;

static constant constants[MAX_CONSTANTS];
static int n_constants;

void md_fit_add(const char *file, const char *name, double *value, int n);

/* Called by constructors (family/fit.h). */
void md_fit_add(const char *file, const char *name, double *value, int n)
{
    const char *slash = strrchr(file, '/');
    for (int i = 0; i < n && n_constants < MAX_CONSTANTS; i++) {
        constant *c = &constants[n_constants++];
        char number[12] = "";
        if (n > 1)
            snprintf(number, sizeof number, "%d", i);
        snprintf(c->name, sizeof c->name, "%.40s:%.40s%s", slash ? slash + 1 : file, name, number);
        c->value = value + i;
    }
}

typedef struct formula {
    char key[1200]; /* capability, formula, dtype */
    md_dev_facts facts;
    md_fx_formula *parsed;
    md_st_program *program;
    int32_t stage; /* the only one, or the chain of the others */
} formula;

/* Equal ones of a formula follow each other: of one shape. */
typedef struct record {
    const formula *formula;
    int64_t size[MD_FX_MAX_DIMS];
    const md_fa_family *family;
    md_fa_config config;
    double us, model_us;
    bool is_first; /* of its shape */
    int64_t line; /* of RECORDS, from 0 */
} record;

typedef struct records {
    formula formula[MAX_FORMULAS];
    int32_t n_formulas;
    record *record;
    int64_t n, capacity;
} records;

static bool find_stage(formula *f)
{
    f->stage = f->program->n_stages - 1;
    return f->stage == 0 || f->program->stage[f->stage].kind == MD_ST_CHAIN;
}

/* "90" or, for another board of that architecture, "90:1". */
static bool assume(md_dev_facts *out, const char *capability)
{
    char arch[16] = "";
    const char *colon = strchr(capability, ':');
    if (md_dev_cuda_assume(out, atoi(capability)) != MD_OK)
        return false;
    memcpy(arch, out->arch, sizeof arch);
    return !colon || md_dev_cuda_assume_board(out, arch, atoi(colon + 1)) == MD_OK;
}

static formula *formula_of(records *r, const char *capability, const char *text, const char *dtype, const char *fixed)
{
    char key[1200];
    snprintf(key, sizeof key, "%.8s %.1000s %.16s %.100s", capability, text, dtype, fixed);
    for (int32_t i = 0; i < r->n_formulas; i++)
        if (!strcmp(r->formula[i].key, key))
            return r->formula[i].program ? &r->formula[i] : NULL;
    if (r->n_formulas == MAX_FORMULAS)
        return NULL;
    formula *f = &r->formula[r->n_formulas++];
    const md_catalogue_entry *entry = md_catalogue_find(text);
    const md_fx_options o = {.dtype = md_dtype_parse(dtype), .sizes = *fixed ? fixed : NULL};
    memcpy(f->key, key, sizeof key);
    if (!assume(&f->facts, capability) ||
        md_fx_formula_create(&f->parsed, entry ? entry->formula : text, &o) != MD_OK ||
        md_st_split(f->parsed) != MD_OK || md_st_program_create(&f->program, f->parsed) != MD_OK || !find_stage(f)) {
        fprintf(stderr, "left out: %s: %s\n", text, md_last_error());
        f->program = NULL;
        return NULL;
    }
    return f;
}

/* Sizes that the line leaves out are of axes that only subscripts reach, such as z[n,k//32]: the least that will do. */
static void add_reached_sizes(int64_t *size, const md_fx_formula *f)
{
    for (int32_t i = 0; i < f->n_reaches; i++) {
        const md_fx_reach *at = &f->reach[i];
        const int32_t d = f->tensor[at->tensor].dim[at->axis];
        int64_t lo, hi;
        if (strchr(f->dim[d].name, '.') && md_fx_range(&lo, &hi, f, size, at) && hi >= size[d])
            size[d] = hi + 1;
    }
}

static bool read_sizes(int64_t *size, const md_fx_formula *f, char *text)
{
    char *rest = text;
    for (int32_t d = 0; d < f->n_dims; d++)
        size[d] = f->dim[d].size >= 0 ? f->dim[d].size : -1;
    for (char *word = strsep(&rest, ", "); word; word = strsep(&rest, ", ")) {
        char *equals = strchr(word, '=');
        for (int32_t d = 0; equals && d < f->n_dims; d++)
            if (!strncmp(f->dim[d].name, word, (size_t)(equals - word)) && !f->dim[d].name[equals - word])
                size[d] = strtoll(equals + 1, NULL, 10);
    }
    add_reached_sizes(size, f);
    for (int32_t d = 0; d < f->n_dims; d++)
        if (size[d] < 0)
            return false;
    return true;
}

/* False for a line that is left out: of several stages that no chain fuses, or of a variant that is no more. */
static bool read_record(records *r, char *line, int64_t number)
{
    char *word[7], *rest = line;
    for (int i = 0; i < 7; i++)
        if (!(word[i] = strsep(&rest, "\t\n")))
            return false;
    const formula *f = formula_of(r, word[0], word[1], word[2], word[6]);
    record x = {.formula = f, .us = strtod(word[5], NULL), .line = number};
    if (!f || !(x.us > 0) || !read_sizes(x.size, f->parsed, word[3]))
        return false;
    const md_fa_target target = {f->program, f->stage, &f->facts};
    if (md_fa_parse_for(&x.family, &x.config, &target, word[4]) != MD_OK || !md_fa_applies(x.family, &target) ||
        (f->stage > 0 &&
         !md_fa_legal(x.family, &target, &x.config, NULL))) /* sizes: pools serve beyond what is legal */
        return false;
    if (r->n == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 1024;
        r->record = realloc(r->record, (size_t)r->capacity * sizeof x);
        if (!r->record)
            exit(1);
    }
    const record *before = r->n ? &r->record[r->n - 1] : NULL;
    x.is_first = !before || before->formula != f || memcmp(before->size, x.size, sizeof x.size) != 0;
    r->record[r->n++] = x;
    return true;
}

static bool read_all(records *r, const char *path)
{
    static char line[LINE];
    FILE *file = fopen(path, "r");
    int64_t n_left_out = 0, number = 0;
    if (!file)
        return false;
    while (fgets(line, sizeof line, file))
        n_left_out += !read_record(r, line, number++);
    fclose(file);
    if (n_left_out)
        fprintf(stderr, "%lld lines left out: several stages, or variants that are no more\n", (long long)n_left_out);
    return r->n > 0;
}

/* Sums over shapes. */
typedef struct verdict {
    double off, weights, regret, soft;
    int64_t n_shapes;
} verdict;

/* The model's times of some records of one shape; the least of them. */
static double predict(record *r, int64_t n)
{
    double least = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const md_fa_target target = {r[i].formula->program, r[i].formula->stage, &r[i].formula->facts};
        r[i].model_us = md_tn_form_us(&target, r[i].family, &r[i].config, r[i].size);
        least = fmin(least, r[i].model_us);
    }
    return least;
}

static double best_of(const record *r, int64_t n)
{
    double best = INFINITY;
    for (int64_t i = 0; i < n; i++)
        best = fmin(best, r[i].us);
    return best;
}

/* The times of one shape, of which a disturbed one must not make more than MOST_REGRET. */
static void judge_shape(verdict *v, record *r, int64_t n)
{
    const double best = best_of(r, n), least = predict(r, n);
    double regret = INFINITY, soft = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        const double us = r[i].model_us, off = log(us / r[i].us), weight = best * best / (r[i].us * r[i].us),
                     part = pow(least / us, SHARP), loses = fmin(r[i].us / best - 1, MOST_REGRET);
        v->off += weight * off * off;
        v->weights += weight;
        soft += part * loses;
        all += part;
        if (us <= least && isinf(regret))
            regret = loses;
    }
    v->regret += regret;
    v->soft += soft / all;
    v->n_shapes++;
}

static void judge(records *r)
{
    verdict v = {0};
    for (int64_t i = 0, n; i < r->n; i += n) {
        for (n = 1; i + n < r->n && !r->record[i + n].is_first; n++)
            ;
        judge_shape(&v, &r->record[i], n);
    }
    const double shapes = (double)v.n_shapes;
    printf("%.6f %.6f %.6f %lld\n", sqrt(v.off / v.weights), v.regret / shapes, v.soft / shapes, (long long)r->n);
    fflush(stdout);
}

/* The model's time of each record that is used, behind the number of its line. */
static void print_times(records *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        (void)predict(&r->record[i], 1);
        printf("%lld:%.9g ", (long long)r->record[i].line, r->record[i].model_us);
    }
    printf("\n");
    fflush(stdout);
}

/* What trees ask about each record that is used: the number of its line, the time by the form, then the inputs. */
static void print_inputs(records *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        const record *x = &r->record[i];
        const md_fa_target target = {x->formula->program, x->formula->stage, &x->formula->facts};
        md_fa_features features = {.ops_rate = 1.0, .parallel = 1.0, .launches = 1};
        float input[MD_TN_TREE_INPUTS];
        const double us = md_tn_form_us(&target, x->family, &x->config, x->size);
        md_fa_features_of(&features, x->family, &target, &x->config, x->size);
        md_tn_tree_inputs(input, x->family, &(md_tn_question){&target, &x->config, x->size, &features, us});
        printf("%lld %.9g", (long long)x->line, us);
        for (int k = 0; k < MD_TN_TREE_INPUTS; k++)
            printf(" %.9g", (double)input[k]);
        printf("\n");
    }
    printf("end\n");
    fflush(stdout);
}

/* False after naming what is no constant. */
static bool set_constants(char *line)
{
    char *rest = line;
    for (char *word = strsep(&rest, " \n"); word; word = strsep(&rest, " \n")) {
        char *equals = strchr(word, '=');
        bool is_known = !*word;
        for (int i = 0; equals && i < n_constants && !is_known; i++)
            if (!strncmp(constants[i].name, word, (size_t)(equals - word)) && !constants[i].name[equals - word]) {
                *constants[i].value = strtod(equals + 1, NULL);
                is_known = true;
            }
        if (!is_known) {
            fprintf(stderr, "no constant is called so: %s\n", word);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static records r;
    static char line[LINE];
    const bool lists = argc == 3 && !strcmp(argv[1], "--list");
    if (argc != 2 && !lists) {
        fprintf(stderr, "usage: %s [--list] RECORDS\n", argv[0]);
        return 2;
    }
    for (int i = 0; lists && i < n_constants; i++)
        printf("%s=%.17g\n", constants[i].name, *constants[i].value);
    if (lists)
        return 0;
    if (!read_all(&r, argv[argc - 1])) {
        fprintf(stderr, "%s: no times in it\n", argv[argc - 1]);
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "times\n")) {
            print_times(&r);
            continue;
        }
        if (!strcmp(line, "inputs\n")) {
            print_inputs(&r);
            continue;
        }
        if (!set_constants(line))
            return 1;
        judge(&r);
    }
    return 0;
}
