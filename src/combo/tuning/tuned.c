/* Winners of tuning in the store: an entry for each list of formulas, sizes and strides. Its lines say which kernel
 * another one replaces:
 *
 *     combo 1
 *     # heuristic 12.1 us, separate 40.2 us, tuned 10.9 us
 *     OP STAGE FROM TO
 *
 * OP is twice the number of a part, and one more for the merged op that serves its items (dispatch/merged.h).
 * An entry with a line that says nothing of this combo is ignored as a whole. */
#include "base/log.h"
#include "base/status.h"
#include "combo/tuning/tuning.h"
#include "dispatch/merged.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "combo 1\n"

/* ---- Keys */

static void add_digest(md_strbuf *out, const void *bytes, size_t n)
{
    char text[33];
    md_digest_text(text, md_hash128(bytes, n));
    md_strbuf_printf(out, "%s ", text);
}

static void add_part(md_strbuf *out, const md_cb_part *p)
{
    const md_strbuf *formula = &p->op->compiled->printed;
    md_strbuf_printf(out, "%lld ", (long long)p->n_items);
    add_digest(out, md_strbuf_text(formula), formula->size);
    add_digest(out, p->layout, (size_t)(p->n_items * p->n_words) * sizeof *p->layout);
    for (int32_t s = 0; s < p->n_operands; s++)
        md_strbuf_printf(out, "%d ", (int)p->operand[s].dtype);
}

md_status md_cb_key(md_strbuf *out, const md_cb *cb)
{
    md_strbuf parts = {0};
    for (int32_t i = 0; i < cb->n_parts; i++)
        add_part(&parts, &cb->part[i]);
    add_digest(out, md_strbuf_text(&parts), parts.size);
    const bool failed = parts.failed || out->failed;
    md_strbuf_finish(&parts);
    return failed ? md_fail_memory() : MD_OK;
}

/* ---- Reading */

static bool take_config(md_fa_config *out, const md_fa_family **family, const md_fa_target *target, const char *name)
{
    return md_fa_parse_for(family, out, target, name) == MD_OK;
}

/* False: it is no line of an entry, or not of this combo. */
static bool take_line(md_cb_choices *to, const md_cb *cb, const char *line)
{
    char from_name[MD_FA_NAME], to_name[MD_FA_NAME], more;
    int op, stage;
    const md_fa_family *family;
    md_cb_choice *c = &to->choice[to->n];
    _Static_assert(MD_FA_NAME == 96, "the format reads 95 bytes");
    if (to->n == MD_CB_MAX_CHOICES || sscanf(line, "%d %d %95s %95s %c", &op, &stage, from_name, to_name, &more) != 4 ||
        op < 0 || op / 2 >= cb->n_parts)
        return false;
    c->op = op % 2 ? md_ds_merged_of(cb->part[op / 2].op) : cb->part[op / 2].op;
    c->stage = stage;
    if (!c->op)
        return true; /* the merged op is not made, so nothing runs it */
    if (stage < 0 || stage >= c->op->n_stages)
        return false;
    const md_ds_pool *pool = &c->op->stage[stage];
    if (!take_config(&c->from, &c->family, &pool->target, from_name) ||
        !take_config(&c->to, &family, &pool->target, to_name) || family != c->family)
        return false;
    to->n++;
    return true;
}

static bool take_lines(md_cb_choices *to, const md_cb *cb, char *text, size_t n)
{
    char *rest = text + strlen(HEAD);
    if (strlen(text) != n || strncmp(text, HEAD, strlen(HEAD)) != 0)
        return false;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        if (*line && *line != '#' && !take_line(to, cb, line))
            return false;
    return true;
}

void md_cb_recall(md_cb *cb, md_sr *store)
{
    md_strbuf key = {0};
    bool is_found = md_sr_n_places(store) == 0 || md_cb_key(&key, cb) != MD_OK;
    for (int32_t place = 0; place < md_sr_n_places(store) && !is_found; place++) {
        void *text = NULL;
        size_t n = 0;
        is_found = md_sr_find_at(&text, &n, store, place, MD_CB_STORE_KIND, md_strbuf_text(&key)) == MD_OK;
        if (is_found && !take_lines(&cb->choices, cb, text, n)) {
            cb->choices.n = 0;
            md_log_at(cb->runtime->log, MD_LOG_WARN, "store: what was tuned of a combo cannot be used, and is dropped");
            if (place == 0)
                md_sr_discard(store, MD_CB_STORE_KIND, md_strbuf_text(&key));
        }
        free(text);
    }
    md_strbuf_finish(&key);
}

/* ---- Writing */

/* What stands for an op in a line: that of its first part. */
static int32_t number_of(const md_cb *cb, const md_ds_op *op)
{
    for (int32_t p = 0; p < cb->n_parts; p++)
        if (cb->part[p].op == op || md_ds_merged_of(cb->part[p].op) == op)
            return 2 * p + (cb->part[p].op != op);
    return 2 * cb->n_parts;
}

md_status md_cb_keep(const md_cb *cb, md_sr *store, const char *remark)
{
    char from[MD_FA_NAME], to[MD_FA_NAME];
    md_strbuf key = {0}, text = {0};
    md_status status = md_cb_key(&key, cb);
    md_strbuf_printf(&text, "%s# %s\n", HEAD, remark);
    for (int32_t i = 0; i < cb->choices.n; i++) {
        const md_cb_choice *c = &cb->choices.choice[i];
        md_fa_name(from, c->family, &c->from);
        md_fa_name(to, c->family, &c->to);
        md_strbuf_printf(&text, "%d %d %s %s\n", (int)number_of(cb, c->op), (int)c->stage, from, to);
    }
    if (status == MD_OK)
        status = key.failed || text.failed
                     ? md_fail_memory()
                     : md_sr_put(store, MD_CB_STORE_KIND, md_strbuf_text(&key), md_strbuf_text(&text), text.size);
    md_strbuf_finish(&key);
    md_strbuf_finish(&text);
    return status;
}
