/* Tuning in pieces: lists them as lines of JSON, and tunes one that some process listed. */
#include "api/context.h"
#include "base/json.h"
#include "base/status.h"
#include "dispatch/pool/pieces.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char FORMAT[] = "multidispatch piece";
/* SLACK: a piece may take so many times what was predicted, where no budget is given. */
enum { VERSION = 1, SLACK = 10 };
/* The least budget of a piece, one build and its times; where no budget is given. */
static const double LEAST_MS = 500.0, LEAST_FREE_MS = 5000.0;
/* Members that say what is tuned: the digest is theirs. The others say how long it may take. */
static const char *const identity[] = {"format",  "version", "library", "device",     "formula",
                                       "stage",   "point",   "ragged",  "family",     "bounds",
                                       "numeric", "tf32",    "rigor",   "persistent", "cblas"};

/* ---- Digests */

/* The digest of a piece's identity, as text. False where memory is short. */
static bool digest_of(char out[33], const json_t *piece)
{
    json_t *same = json_object();
    for (size_t i = 0; same && i < sizeof identity / sizeof *identity; i++)
        if (json_object_set(same, identity[i], json_object_get(piece, identity[i])) != 0) {
            json_decref(same); /* a member is missing, or memory is short */
            same = NULL;
        }
    char *text = same ? md_json_dump(same, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (text)
        md_digest_text(out, md_hash128(text, strlen(text)));
    free(text);
    json_decref(same);
    return text != NULL;
}

/* ---- Listing */

typedef struct listing {
    const md_context *context;
    const md_op_options *o;
    const md_ds_tune_request *request;
    const md_ds_pieces *pieces;
    double sum_ms;
} listing;

static json_t *identity_json(const listing *l, const md_ds_piece *p)
{
    char library[64];
    const md_ds_policy *policy = &l->request->compile.policy;
    return json_pack(
        "{s:s, s:i, s:s, s:o, s:o, s:i, s:s, s:b, s:s, s:i, s:i, s:b, s:i, s:i, s:b}", "format", FORMAT, "version",
        VERSION, "library", md_api_library_name(library), "device", md_json_text(l->context->dev->facts.name),
        "formula", md_json_text(l->pieces->formula), "stage", (int)p->stage, "point", p->point, "ragged", p->is_ragged,
        "family", p->family, "bounds", (int)l->o->bounds, "numeric", (int)policy->numeric, "tf32", policy->allows_tf32,
        "rigor", (int)l->request->job.rigor, "persistent", (int)policy->persistent, "cblas", !policy->without_library);
}

static json_t *indices_json(const md_tn_indices *indices)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < indices->n; i++)
        list = md_json_add(list, json_integer((json_int_t)indices->value[i]));
    return list;
}

static md_status add_line(md_strbuf *out, const listing *l, const md_ds_piece *p)
{
    char digest[33];
    const md_tn_job *job = &l->request->job;
    const double budget_ms =
        job->budget_ms > 0.0 ? fmax(job->budget_ms * p->ms / l->sum_ms, LEAST_MS) : fmax(SLACK * p->ms, LEAST_FREE_MS);
    json_t *piece = identity_json(l, p);
    if (!piece || !digest_of(digest, piece)) {
        json_decref(piece);
        return md_fail_memory();
    }
    piece =
        md_json_merge(piece, json_pack("{s:s, s:f, s:f, s:i, s:I, s:i, s:b, s:o}", "piece", digest, "ms",
                                       fmin(p->ms, budget_ms), "budget_ms", budget_ms, "builds", (int)p->builds, "seed",
                                       (json_int_t)job->seed, "strategy", (int)job->strategy, "all_directions",
                                       job->all_directions, "indices", indices_json(&job->indices)));
    char *text = piece ? md_json_dump(piece, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (text)
        md_strbuf_printf(out, "%s\n", text);
    free(text);
    json_decref(piece);
    return text && !out->failed ? MD_OK : md_fail_memory();
}

static md_status list(const md_context *context, const char *formula, const md_op_options *o,
                      const md_tune_options *tune)
{
    md_ds_tune_request request;
    md_ds_pieces pieces;
    md_strbuf text = {0};
    const char *found, *name;
    MD_TRY(md_api_tune_request(&request, context, o, tune));
    MD_TRY(md_api_find_formula(&found, &name, formula));
    md_status s = md_ds_pieces_list(&pieces, &request, found);
    listing l = {context, o, &request, &pieces, 0.0};
    for (int32_t i = 0; i < pieces.n; i++)
        l.sum_ms += pieces.piece[i].ms;
    for (int32_t i = 0; s == MD_OK && i < pieces.n; i++)
        s = add_line(&text, &l, &pieces.piece[i]);
    if (s == MD_OK && text.size)
        s = md_api_write(&text, tune->write, tune->user);
    md_strbuf_finish(&text);
    md_ds_pieces_finish(&pieces);
    return s;
}

md_status md_tune_pieces(md_context *context, const char *formula, const md_op_options *options,
                         const md_tune_options *tune)
{
    static const md_op_options none = {0};
    if (!context || !formula || !tune || !tune->write)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL",
                       !context   ? "context"
                       : !formula ? "formula"
                                  : "tune, or its function write,");
    return list(context, formula, options ? options : &none, tune);
}

/* ---- Tuning one */

static md_status check_piece(const md_context *context, const json_t *piece)
{
    char digest[33], library[64];
    const char *device = md_json_text_at(piece, "device"), *theirs = md_json_text_at(piece, "library");
    if (!json_is_object(piece) || strcmp(md_json_text_at(piece, "format"), FORMAT) != 0 ||
        md_json_integer_at(piece, "version") != VERSION)
        return md_fail(MD_CORRUPT, "this text is no piece of tuning, or one that was cut");
    if (!digest_of(digest, piece) || strcmp(digest, md_json_text_at(piece, "piece")) != 0)
        return md_fail(MD_CORRUPT, "piece %.40s was changed: its digest is another", md_json_text_at(piece, "piece"));
    if (strcmp(theirs, md_api_library_name(library)) != 0)
        return md_fail(MD_UNSUPPORTED, "piece %s is of version %.60s of the library; this is %s", digest, theirs,
                       library);
    if (strcmp(device, context->dev->facts.name) != 0)
        return md_fail(MD_UNSUPPORTED, "piece %s is for the device '%.80s'; this is '%s'", digest, device,
                       context->dev->facts.name);
    return MD_OK;
}

static md_status read_indices(int64_t **out, int64_t *n, const json_t *list)
{
    const json_t *value;
    size_t at;
    *n = 0;
    *out = json_array_size(list) ? malloc(json_array_size(list) * sizeof **out) : NULL;
    if (json_array_size(list) && !*out)
        return md_fail_memory();
    json_array_foreach(list, at, value)(*out)[(*n)++] = json_integer_value(value);
    return MD_OK;
}

static md_status tune_read(md_strbuf *out, const md_context *context, const json_t *piece, md_tune_options *t)
{
    md_ds_tune_request request;
    const char *point = md_json_text_at(piece, "point");
    const md_op_options o = {.hints = point[0] ? point : NULL,
                             .bounds = (md_bounds)md_json_integer_at(piece, "bounds"),
                             .numeric = (md_numeric)md_json_integer_at(piece, "numeric"),
                             .persistent = (md_persistent)md_json_integer_at(piece, "persistent"),
                             .without_library = !md_json_is(piece, "cblas"),
                             .tf32 = md_json_is(piece, "tf32")};
    t->rigor = (md_tune)md_json_integer_at(piece, "rigor");
    t->strategy = (md_tune_strategy)md_json_integer_at(piece, "strategy");
    t->budget_ms = md_json_number_at(piece, "budget_ms");
    t->all_directions = md_json_is(piece, "all_directions");
    t->seed = (uint64_t)md_json_integer_at(piece, "seed");
    MD_TRY(md_api_tune_request(&request, context, &o, t));
    const md_ds_piece p = {.stage = (int32_t)md_json_integer_at(piece, "stage"),
                           .is_ragged = md_json_is(piece, "ragged"),
                           .family = md_json_text_at(piece, "family"),
                           .builds = (int32_t)md_json_integer_at(piece, "builds")};
    return md_ds_piece_tune(out, &request, md_json_text_at(piece, "formula"), &p);
}

static md_status tune_piece(md_strbuf *out, md_context *context, const json_t *piece, const md_tune_options *tune)
{
    md_tune_options t = {.exclude = tune->exclude, .write = tune->write, .user = tune->user};
    int64_t *indices = NULL;
    MD_TRY(check_piece(context, piece));
    MD_TRY(read_indices(&indices, &t.n_indices, json_object_get(piece, "indices")));
    t.indices = indices;
    const uint64_t busy = atomic_load(&context->tune_count.busy);
    md_strbuf_printf(out, "# piece %s\n", md_json_text_at(piece, "piece"));
    const size_t n_before = out->size;
    md_status s = tune_read(out, context, piece, &t);
    if (s == MD_OK && out->size == n_before && atomic_load(&context->tune_count.busy) != busy)
        s = md_fail(MD_TIMEOUT, "piece %s: another process tunes it, or measured on the device all the time",
                    md_json_text_at(piece, "piece"));
    md_strbuf_printf(out, "# end %s\n", md_json_text_at(piece, "piece"));
    free(indices);
    return s == MD_OK && out->failed ? md_fail_memory() : s;
}

md_status md_tune_piece(md_context *context, const char *piece, const md_tune_options *tune, md_write_fn write,
                        void *user)
{
    static const md_tune_options none = {0};
    md_strbuf text = {0};
    if (!context || !piece)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "piece" : "context");
    json_t *read = json_loads(piece, JSON_REJECT_DUPLICATES, NULL);
    md_status s = tune_piece(&text, context, read, tune ? tune : &none);
    if (s == MD_OK && write)
        s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    json_decref(read);
    return s;
}
