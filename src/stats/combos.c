/* Rows of combos: added up, printed as lines and as JSON. */
#include "stats/combos.h"

#include "base/grow.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

void md_ss_combos_finish(md_ss_combos *combos)
{
    for (int64_t i = 0; i < combos->n; i++)
        free(combos->combo[i].kind);
    free(combos->combo);
    memset(combos, 0, sizeof *combos);
}

static bool is_same_kind(const md_ss_combo_kind *a, const md_ss_combo_kind *b)
{
    return a->part == b->part && a->level == b->level && !strcmp(a->how, b->how) && !strcmp(a->op, b->op) &&
           !strcmp(a->shape, b->shape) && !strcmp(a->variant, b->variant);
}

bool md_ss_combo_count(md_ss_combo *combo, const md_ss_combo_kind *kind)
{
    if (!combo->kind)
        combo->kind = malloc(MD_SS_COMBO_KINDS * sizeof *combo->kind);
    if (!combo->kind)
        return false;
    for (int32_t i = 0; i < combo->n_kinds; i++) {
        md_ss_combo_kind *k = &combo->kind[i];
        if (!is_same_kind(k, kind))
            continue;
        k->calls += kind->calls;
        k->items = MD_MAX(k->items, kind->items);
        return true;
    }
    if (combo->n_kinds < MD_SS_COMBO_KINDS)
        combo->kind[combo->n_kinds++] = *kind;
    else
        combo->n_more += kind->calls;
    return true;
}

/* The row that a combo counts into; a new one has no counts. NULL: memory was short. */
static md_ss_combo *row_of(md_ss_combos *combos, const md_ss_combo *from)
{
    const bool is_full = combos->n >= MD_SS_COMBOS;
    for (int64_t i = 0; i < combos->n; i++) {
        md_ss_combo *c = &combos->combo[i];
        if (c->hash == from->hash && c->n_items == from->n_items && !strcmp(c->ops, from->ops))
            return c;
    }
    if (is_full && combos->combo[combos->n - 1].n_parts == 0)
        return &combos->combo[combos->n - 1];
    if (!md_grow(&combos->combo, (size_t)combos->n, sizeof *combos->combo))
        return NULL;
    md_ss_combo *c = &combos->combo[combos->n++];
    *c = (md_ss_combo){.hash = from->hash, .n_parts = from->n_parts, .n_items = from->n_items};
    c->n_empty = from->n_empty;
    memcpy(c->ops, from->ops, sizeof c->ops);
    if (is_full)
        *c = (md_ss_combo){.ops = "other lists"};
    return c;
}

void md_ss_combos_add(md_ss_combos *combos, const md_ss_combo *from)
{
    md_ss_combo *to = row_of(combos, from);
    if (!to) {
        combos->failed = true;
        return;
    }
    to->runs += from->runs;
    to->n_timed += from->n_timed;
    to->runs_by_calls += from->runs_by_calls;
    to->timed_us += from->timed_us;
    to->n_more += from->n_more;
    for (int32_t i = 0; i < from->n_kinds; i++)
        if (to->n_parts == 0)
            to->n_more += from->kind[i].calls;
        else
            combos->failed |= !md_ss_combo_count(to, &from->kind[i]);
}

void md_ss_combos_append(md_ss_combos *combos, const md_ss_combos *from)
{
    for (int64_t i = 0; i < from->n; i++)
        md_ss_combos_add(combos, &from->combo[i]);
    combos->n_busy += from->n_busy;
    combos->failed |= from->failed;
}

/* ---- Printing */

static json_t *kind_json(const md_ss_combo_kind *k)
{
    return json_pack("{s:i, s:i, s:s, s:o, s:s, s:o, s:I, s:I}", "part", k->part, "launch", k->level, "how", k->how,
                     "op", md_json_text(k->op), "shape", k->shape, "variant", md_json_text(k->variant), "items",
                     (json_int_t)k->items, "calls", (json_int_t)k->calls);
}

static json_t *combo_json(const md_ss_combo *c)
{
    char hash[20];
    json_t *kinds = json_array();
    for (int32_t i = 0; i < c->n_kinds; i++)
        kinds = md_json_add(kinds, kind_json(&c->kind[i]));
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)c->hash);
    return json_pack("{s:s, s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:o}", "hash", hash, "ops",
                     md_json_text(c->ops), "parts", c->n_parts, "items", (json_int_t)c->n_items, "empty",
                     (json_int_t)c->n_empty, "runs", (json_int_t)c->runs, "by_calls", (json_int_t)c->runs_by_calls,
                     "timed", (json_int_t)c->n_timed, "us",
                     c->n_timed ? md_json_real(c->timed_us / (double)c->n_timed) : json_null(), "more",
                     (json_int_t)c->n_more, "kinds", kinds);
}

json_t *md_ss_combos_json(const md_ss_combos *combos)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < combos->n; i++)
        list = md_json_add(list, combo_json(&combos->combo[i]));
    return list;
}

static void print_combo(md_strbuf *out, const json_t *c)
{
    const json_t *kinds = json_object_get(c, "kinds");
    const long long n_timed = md_json_integer_at(c, "timed"), n_more = md_json_integer_at(c, "more");
    md_strbuf_printf(out, "combo %s: %lld items, %lld runs", md_json_text_at(c, "ops"), md_json_integer_at(c, "items"),
                     md_json_integer_at(c, "runs"));
    if (n_timed)
        md_strbuf_printf(out, ", %.2f us a run (of %lld)", md_json_number_at(c, "us"), n_timed);
    md_strbuf_add(out, "\n");
    for (size_t i = 0; i < json_array_size(kinds); i++) {
        const json_t *k = json_array_get(kinds, i);
        md_strbuf_printf(out, "  part %lld, launch %lld: %lld calls, %s: %lld items of %s %s, %s\n",
                         md_json_integer_at(k, "part"), md_json_integer_at(k, "launch"), md_json_integer_at(k, "calls"),
                         md_json_text_at(k, "how"), md_json_integer_at(k, "items"), md_json_text_at(k, "op"),
                         md_json_text_at(k, "shape"), md_json_text_at(k, "variant"));
    }
    if (n_more)
        md_strbuf_printf(out, "  %lld calls of more kinds\n", n_more);
}

void md_ss_combos_print(md_strbuf *out, const json_t *combos)
{
    out->failed |= !combos;
    for (size_t i = 0; i < json_array_size(combos); i++)
        print_combo(out, json_array_get(combos, i));
}
