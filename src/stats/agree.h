/* Agreement of ranks: what they tell each other, and what follows from it. */
#ifndef MD_STATS_AGREE_H
#define MD_STATS_AGREE_H

#include "base/hash.h"
#include "base/strbuf.h"
#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/op.h"

#include <md/md.h>

/** What an agreement is about. */
typedef struct md_ss_agree_request {
    md_ds_op *const *op;
    int32_t n_ops;
    const char *library; /* version and sources: ranks of another one are refused */
    const char *device; /* ranks of one name agree */
    const char *environment; /* driver and compiler: what differs is only named */
    const md_exchange *exchange;
} md_ss_agree_request;

/** As md_agree. */
md_status md_ss_agree(md_agreement *out, const md_ss_agree_request *request);

/* ---- agree_wire.c: the bytes that ranks exchange. Ranks of one version have the same layout. */

/* Of fixed size and layout in all versions: the first gather tells whether the others understand each other. */
typedef struct md_ss_hello {
    char magic[8];
    char library[64], device[64], environment[128];
    uint64_t ops[2], choices[2]; /* digests: of the ops that live, of all choices */
    int64_t n_choices, ops_bytes; /* ops_bytes: of the texts of the ops */
    int64_t has_proposals; /* something waits for an agreement */
} md_ss_hello;

/* A choice, as all ranks see it. */
typedef struct md_ss_choice_id {
    md_digest128 shape; /* op and key */
    uint64_t what; /* the variants */
    int64_t n_bytes; /* of its record */
} md_ss_choice_id;

/* A choice of this rank. */
typedef struct md_ss_own_choice {
    md_ss_choice_id id;
    uint64_t served; /* the variants that serve now: `what` may be a proposal */
    int32_t op; /* among the request's */
    int32_t n_words;
    int64_t *word; /* of the key; owned */
    const char **variant; /* one a stage, then the runners-up ("": none); owned, the names are not */
} md_ss_own_choice;

typedef struct md_ss_own_choices {
    md_digest128 *op; /* digest of each op's key; owned */
    md_ss_own_choice *choice; /* sorted by shape; owned */
    int64_t n;
    bool has_proposals, failed;
} md_ss_own_choices;

/** Lists what the ops chose. Finish it. OUT_OF_MEMORY. */
md_status md_ss_own_choices_make(md_ss_own_choices *out, md_ds_op *const *op, int32_t n_ops);
void md_ss_own_choices_finish(md_ss_own_choices *own);
/** What it says to others: of each shape once, sorted. Of ops that are equal but for their options the first speaks.
 * malloc'ed; NULL if memory is short. */
md_ss_choice_id *md_ss_own_ids(int64_t *n, const md_ss_own_choices *own);
/** This rank's choice for a shape, of an op (-1: the first that has one); NULL. */
const md_ss_own_choice *md_ss_own_find(const md_ss_own_choices *own, md_digest128 shape, int32_t op);
/** Appends the record of a choice, id.n_bytes long. */
void md_ss_record_print(md_strbuf *out, const md_ss_own_choices *own, const md_ss_own_choice *choice, int32_t n_stages);

/* A record, as it was received. */
typedef struct md_ss_record {
    md_digest128 op;
    int32_t n_words, n_stages;
    const char *words; /* of the key: not aligned */
    const char *names; /* as md_ss_own_choice.variant, one behind the other */
} md_ss_record; /* points into the bytes that were read */
/** Reads one; false if the bytes are none. */
bool md_ss_record_read(md_ss_record *out, const char *bytes, size_t n_bytes);
/** Digest of one name for each stage. */
uint64_t md_ss_what_of(const char *const *variant, int32_t n_stages);

/* ---- agree_vote.c: which choice of a disputed shape serves */

enum { MD_SS_CANDIDATES = 8 }; /* choices of a dispute that are voted on: the ranks' own, then runners-up */

/* A choice that is voted on; its names are of the record that it came in. */
typedef struct md_ss_candidate {
    const md_ss_record *record;
    uint64_t what;
    const char **variant; /* one a stage; owned, the names are not */
} md_ss_candidate;

typedef struct md_ss_dispute {
    int32_t n, chosen; /* chosen -1: no candidate can be built everywhere */
    bool is_vetoed; /* the first candidate is */
    md_ss_candidate *candidate; /* owned */
} md_ss_dispute;

/* Entries that are made, and wait for the vote. */
typedef struct md_ss_draft {
    int32_t op, candidate;
    int64_t dispute;
    md_ds_shape_entry *entry; /* owned; NULL once it serves */
} md_ss_draft;

typedef struct md_ss_vote {
    const md_ss_agree_request *request;
    const md_ss_own_choices *own;
    int64_t n;
    md_ss_dispute *dispute; /* of this rank's kind; owned */
    md_ss_draft *draft; /* owned */
    int64_t n_drafts, n_changed;
    char why[MD_WHY_BYTES]; /* the first candidate that could not be built here, and why not */
} md_ss_vote;

/** Adds a candidate, unless an equal one is there, or they are too many. OUT_OF_MEMORY. */
md_status md_ss_vote_add(md_ss_dispute *dispute, const md_ss_record *record, bool is_runner_up);
/** Makes what serves by this candidate, for every op of this rank that it is for. False: it cannot be built here. */
bool md_ss_vote_try(md_ss_vote *vote, int64_t dispute, int32_t candidate);
/** Puts the chosen candidates of all disputes into use. OUT_OF_MEMORY. */
md_status md_ss_vote_apply(md_ss_vote *vote);
/** Puts this rank's own proposal for a shape into use. */
md_status md_ss_vote_apply_own(md_ss_vote *vote, const md_ss_own_choice *choice);
/** Forgets the disputes of a rank that failed: it vetoes nothing, and the others go on. */
void md_ss_vote_drop(md_ss_vote *vote);
void md_ss_vote_finish(md_ss_vote *vote);

/* ---- agree_talk.c: gathers, and the first two of them */

enum { MD_SS_MESSAGE = 512 };

/* The gathers between the first, hello, and the last, results. What they bring is kept. */
typedef enum md_ss_gather {
    MD_SS_DIGESTS,
    MD_SS_RECORDS,
    MD_SS_FIRST_VOTE, /* on the first candidate of each dispute */
    MD_SS_SECOND_VOTE, /* on the others, where the first was vetoed */
    MD_SS_KEPT_GATHERS
} md_ss_gather;

/* One rank's choice for a shape. */
typedef struct md_ss_voice {
    int32_t kind, rank; /* kind: the first rank with its device */
    bool is_disputed, speaks; /* speaks: it is disputed, and nobody before made this choice */
    const md_ss_choice_id *id;
} md_ss_voice;

typedef struct md_ss_agreement {
    const md_ss_agree_request *r;
    const md_exchange *x;
    md_agreement *out;
    uint64_t end_ns;
    md_status status; /* of this rank: the first failure */
    char message[MD_SS_MESSAGE];
    md_ss_own_choices own;
    md_ss_choice_id *id; /* of this rank */
    int64_t n_ids;
    md_strbuf ops; /* texts of this rank's ops */
    md_ss_hello *hello; /* of all ranks */
    int32_t *kinds; /* of all ranks */
    int32_t kind; /* of this rank */
    size_t *said; /* bytes of each rank's records */
    int64_t *disputes; /* of each kind */
    bool is_settled; /* all digests are equal, and nothing is proposed */
    bool has_other_ops; /* in some kind */
    char *all[MD_SS_KEPT_GATHERS]; /* what they brought */
    size_t n_bytes[MD_SS_KEPT_GATHERS]; /* of one rank in them */
    md_ss_voice *voice; /* of all ranks, sorted by kind, shape and rank */
    int64_t n_voices;
    md_ss_record *record; /* of this kind's disputes */
    md_ss_vote vote;
} md_ss_agreement;

/** Keeps the first failure of this rank. */
void md_ss_agree_note(md_ss_agreement *a, md_status status);
/** One gather. TIMEOUT: the exchange failed, and nobody can go on. */
md_status md_ss_agree_exchange(const md_ss_agreement *a, void *all, const void *mine, size_t n_bytes);
/** Gathers n_mine bytes, padded to n_bytes. What this brings stays until the end. */
md_status md_ss_agree_gather(md_ss_agreement *a, md_ss_gather which, const void *mine, size_t n_mine, size_t n_bytes);
/** What it brought from a rank. */
const char *md_ss_agree_part_of(const md_ss_agreement *a, md_ss_gather which, int32_t rank);
md_status md_ss_agree_say_hello(md_ss_agreement *a);
md_status md_ss_agree_say_digests(md_ss_agreement *a);
/** The end of the voices, from `from` on, that are of one kind and shape. */
int64_t md_ss_agree_end_of_group(const md_ss_agreement *a, int64_t from);

/* ---- agree_differ.c: which rank differs, and in what */

/** The keys of the ops, sorted, each in a line. */
void md_ss_ops_text(md_strbuf *out, md_ds_op *const *op, int32_t n_ops);
/** The first rank that is of another version than rank 0: UNSUPPORTED names both. */
md_status md_ss_check_library(const md_ss_hello *hello, int32_t n_ranks);
/** Sets what differs of devices, drivers and compilers, which is no error. */
void md_ss_note_difference(md_agreement *out, const md_ss_hello *hello, int32_t n_ranks);
/** INVALID_ARGUMENT names the first op that one of two ranks of a kind lacks, or the option that differs. OK: equal. */
md_status md_ss_check_ops(int32_t first, const char *first_ops, int32_t rank, const char *ops);

#endif
