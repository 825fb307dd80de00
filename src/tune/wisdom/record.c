/* Records of what was measured, and the keys that they are found by. */
#include "tune/wisdom/record.h"

#include "base/status.h"
#include "expr/node.h"
#include "family/custom/custom.h"

#include <stdlib.h>
#include <string.h>

static const char *const verdict_names[] = {"timed", "slow", "unbuilt", "failed", "wrong", "endless"};

const char *md_tn_verdict_name(md_tn_verdict verdict)
{
    return (int)verdict >= 0 && verdict < MD_COUNT(verdict_names) ? verdict_names[verdict] : "?";
}

bool md_tn_verdict_parse(md_tn_verdict *out, const char *name)
{
    for (int32_t i = 0; i < MD_COUNT(verdict_names); i++)
        if (!strcmp(verdict_names[i], name)) {
            *out = (md_tn_verdict)i;
            return true;
        }
    return false;
}

md_status md_tn_record_copy(md_tn_record *out, const md_tn_record *record)
{
    md_tn_record r = *record;
    const size_t n = (size_t)record->n_candidates;
    r.key = record->key ? strdup(record->key) : NULL;
    r.candidate = n ? malloc(n * sizeof *r.candidate) : NULL;
    if ((record->key && !r.key) || (n && !r.candidate)) {
        md_tn_record_finish(&r);
        memset(out, 0, sizeof *out);
        return md_fail_memory();
    }
    if (n)
        memcpy(r.candidate, record->candidate, n * sizeof *r.candidate);
    *out = r;
    return MD_OK;
}

void md_tn_record_finish(md_tn_record *record)
{
    free(record->key);
    free(record->candidate);
    memset(record, 0, sizeof *record);
}

md_status md_tn_record_add(md_tn_record *record, const md_tn_candidate *candidate)
{
    for (int32_t i = 0; i < record->n_candidates; i++)
        if (!strcmp(record->candidate[i].name, candidate->name)) {
            record->candidate[i] = *candidate;
            return MD_OK;
        }
    md_tn_candidate *more = realloc(record->candidate, (size_t)(record->n_candidates + 1) * sizeof *more);
    if (!more)
        return md_fail_memory();
    record->candidate = more;
    more[record->n_candidates++] = *candidate;
    return MD_OK;
}

bool md_tn_record_beats(const md_tn_record *a, const md_tn_record *b)
{
    if (a->rigor != b->rigor)
        return a->rigor > b->rigor;
    if (a->is_complete != b->is_complete)
        return a->is_complete;
    return a->count >= b->count;
}

/* What a visit looks for: loads of f32, or of 8-bit reals. */
typedef struct sought {
    const md_fx_formula *formula;
    bool is_f8;
} sought;

static bool is_another(void *user, const md_fx_node *node)
{
    const sought *s = user;
    const md_dtype dtype = node->kind == MD_FX_LOAD ? s->formula->tensor[node->id].dtype : MD_I64;
    return s->is_f8 ? dtype != MD_F8E4M3 && dtype != MD_F8E5M2 : dtype != MD_F32;
}

/* True if each operand of the stage's products has such a load. */
static bool all_have(const md_fa_target *target, bool is_f8)
{
    const md_st_product *p = &md_fa_stage(target)->product;
    sought s = {target->program->formula, is_f8};
    for (int32_t i = 0; i < p->n_products; i++)
        if (md_fx_visit(p->a[i], is_another, &s) || md_fx_visit(p->b[i], is_another, &s))
            return false;
    return true;
}

/* True if kernels of the stage may differ by whether products may be as inexact as those of tf32: a GPU's products of
 * f32, and of 8-bit reals, which Hopper's tensor cores add up less exactly. */
static bool has_tf32_kernels(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    return target->facts->kind == MD_DEV_CUDA && st->kind == MD_ST_PRODUCT && st->product.type == MD_F32 &&
           (all_have(target, false) || all_have(target, true));
}

static void print_beginning(md_strbuf *b, const md_fa_target *target)
{
    static const char *const bounds[] = {"report", "clamp", "zero"};
    const md_fx_formula *f = target->program->formula;
    md_fx_print(b, f);
    for (size_t i = 0; i < b->size; i++) /* one line, whatever the printer does */
        if (b->text[i] == '\n')
            b->text[i] = ' ';
    md_strbuf_printf(b, " | stage %d of %d | bounds %s |", target->stage, target->program->n_stages, bounds[f->bounds]);
}

static md_status take_text(char **out, md_strbuf *b)
{
    if (b->failed) {
        md_strbuf_finish(b);
        return md_fail_memory();
    }
    *out = b->text;
    return MD_OK;
}

md_status md_tn_key_beginning(char **out, const md_fa_target *target)
{
    md_strbuf b = {0};
    print_beginning(&b, target);
    return take_text(out, &b);
}

md_status md_tn_key(char **out, const md_fa_target *target, const int64_t *size, bool is_ragged)
{
    const md_fx_formula *f = target->program->formula;
    md_strbuf b = {0};
    print_beginning(&b, target);
    for (int32_t d = 0; d < f->n_dims; d++)
        if (f->dim[d].size < 0)
            md_strbuf_printf(&b, " %s=%lld", f->dim[d].name, (long long)size[d]);
    if (target->customs) {
        char digest[33];
        md_digest_text(digest, target->customs->digest);
        md_strbuf_printf(&b, " | custom %s", digest);
    }
    if (target->allows_tf32 && has_tf32_kernels(target))
        md_strbuf_add(&b, " | tf32");
    md_strbuf_add(&b, is_ragged ? " | ragged" : " | aligned");
    return take_text(out, &b);
}

/* Reads " name=number" of each dynamic dim. */
static bool read_sizes(int64_t *size, const md_fx_formula *f, const char *text)
{
    for (int32_t d = 0; d < f->n_dims; d++) {
        char *end = NULL;
        const size_t n = strlen(f->dim[d].name);
        size[d] = MD_MAX(f->dim[d].size, 0);
        if (f->dim[d].size >= 0)
            continue;
        if (text[0] != ' ' || strncmp(text + 1, f->dim[d].name, n) != 0 || text[1 + n] != '=')
            return false;
        size[d] = strtoll(text + 2 + n, &end, 10);
        if (end == text + 2 + n || size[d] < 0)
            return false;
        text = end;
    }
    return true;
}

bool md_tn_key_sizes(int64_t size[MD_FX_MAX_DIMS], const md_fa_target *target, const char *key)
{
    char *start = NULL, *again = NULL;
    const size_t n_key = strlen(key), n_end = strlen(" | ragged");
    const bool is_ragged = n_key > n_end && !strcmp(key + n_key - n_end, " | ragged");
    bool is = md_tn_key_beginning(&start, target) == MD_OK && !strncmp(key, start, strlen(start)) &&
              read_sizes(size, target->program->formula, key + strlen(start)) &&
              md_tn_key(&again, target, size, is_ragged) == MD_OK && !strcmp(again, key);
    free(start);
    free(again);
    return is;
}
