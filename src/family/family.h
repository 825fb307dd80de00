/* A family makes kernels of one kind for a stage. It is a table of callbacks, a table of config fields, and a name. */
#ifndef MD_FAMILY_FAMILY_H
#define MD_FAMILY_FAMILY_H

#include "device/device.h"
#include "kernel/kernel.h"
#include "stage/stage.h"

#include <math.h>

enum { MD_FA_MAX_FIELDS = 8, MD_FA_MAX_VALUES = 20, MD_FA_NAME = 96 };

typedef struct md_fa_field {
    /* part of a variant's name: "rows" in gemm/rows14_cols32. Where it has its default, a field is left out of the name
     * that is_quiet, or that has n == 1 and more > 0. */
    const char *name;
    int32_t initial; /* the default */
    int32_t n; /* values that pools choose among, in order of search */
    int32_t value[MD_FA_MAX_VALUES];
    /* further values that only a measured search tries, since the model hardly tells them apart */
    int32_t more;
    bool is_quiet;
} md_fa_field;

typedef struct md_fa_config {
    int32_t value[MD_FA_MAX_FIELDS]; /* parallel to the family's fields */
    int64_t custom; /* md_fa_family.custom; 64 bits wide, so that the struct has no padding */
} md_fa_config;

/* How large a stage is at some sizes. Of a product: rows, columns, K and batch; of others rows are the points besides
 * the axis, columns the axis, and depth is 0. */
typedef struct md_fa_extent {
    double rows, columns, depth, batch;
    double flops, bytes; /* of md_st_work */
    double item; /* bytes of an element of its first tensor */
} md_fa_extent;

/* What families find out about a target at some sizes, while many configs are asked about at the same ones. Of one
 * thread. Begin with md_fa_memo_begin. */
typedef struct md_fa_memo {
    const void *product; /* the work of the product; NULL: not known yet (family/product.h) */
    const void *row; /* the same of rows (family/cuda/row/row.h) */
    bool has_work, has_extent; /* flops and bytes are those of md_st_work */
    double flops, bytes;
    md_fa_extent extent;
    double chain_part; /* md_st_chain_part; -1: not known yet */
    double library_us; /* what the library's fastest kernel takes by the model; 0: not known yet */
    /* a config that surely takes longer than this need not have its own features, only ones of a longer time than this:
     * only the fastest matter. HUGE_VAL: all are exact */
    double enough_us;
    _Alignas(8) unsigned char product_bytes[256], row_bytes[128]; /* where `product` and `row` point to */
} md_fa_memo;

static inline void md_fa_memo_begin(md_fa_memo *memo)
{
    memo->product = memo->row = NULL;
    memo->has_work = memo->has_extent = false;
    memo->chain_part = -1;
    memo->library_us = 0;
    memo->enough_us = HUGE_VAL;
}

enum { MD_FA_SPEC_BYTES = 512 };
/* What a family knows of a config whatever the sizes: a struct of its own, which md_fa_family.fix makes, or its kind's
 * spec. */
typedef struct md_fa_fixed {
    _Alignas(8) unsigned char bytes[MD_FA_SPEC_BYTES];
} md_fa_fixed;

/* What a family is asked about: a stage, and where and how it is to run. */
typedef struct md_fa_target {
    const md_st_program *program;
    int32_t stage;
    const md_dev_facts *facts;
    bool allows_tf32; /* operands of f32 products may be rounded to tf32 */
    uint32_t constants; /* bits of the tensors whose packed form may be made once (md_kn_source.packs) */
    const struct md_fa_customs *customs; /* a user's own kernels (family/custom.h); NULL: none */
    const char *op; /* its name, for people; NULL: none. Outlives the target */
    md_fa_memo *memo; /* of questions at one shape; NULL: none */
    const md_fa_fixed *fixed; /* of the config that is asked about; NULL: `features` makes one */
} md_fa_target;

/** A config whose time is above this need not be exact; HUGE_VAL: all are. The margin is for rounding. */
static inline double md_fa_enough_us(const md_fa_target *target)
{
    return target->memo ? target->memo->enough_us * (1 + 1e-9) : HUGE_VAL;
}

static inline const md_st_stage *md_fa_stage(const md_fa_target *target)
{
    return &target->program->stage[target->stage];
}

/* What a variant costs at a shape, for all its launches together. The model (tune) turns it into time. */
typedef struct md_fa_features {
    double memory_bytes; /* bytes that move beyond the last private cache */
    double cache_bytes; /* bytes that are read again from private caches */
    double ops; /* f32 operations, an fma counting as two, padding included */
    double ops_rate; /* part of the device's peak rate that the inner loop can reach, (0, 1] */
    double transcendental; /* evaluations of exp, tanh and the like */
    double serial_us; /* fixed or latency-bound time besides that of launches */
    /* threads (or SMs) that have work on average, 1 .. facts.threads; fractions where the last wave is not full */
    double parallel;
    int32_t launches;
    /* GPUs only: part of the memory rate that the loads in flight and the waves of blocks can reach, (0, 1]; 0 means 1.
     * See family/cuda/cuda.h. */
    double memory_rate;
} md_fa_features;

/* The bits of a variant's results: variants of one stage and class give the same ones (family/numeric.h). */
enum { MD_FA_CLASS_FIELDS = 4 };
typedef struct md_fa_class {
    const char *group; /* NULL: the variant has a class to itself */
    const char *field[MD_FA_CLASS_FIELDS]; /* config fields whose values are part of the class */
    bool is_repeatable; /* the same call gives the same bits */
    bool is_invariant; /* an element's bits do not depend on how many rows there are */
} md_fa_class;

enum { MD_FA_MAX_LIBRARY_CALLS = 4 };

/* A call into a library. Only the family that made it reads the words. */
typedef struct md_fa_library_call {
    uint64_t word[37];
} md_fa_library_call;

/* What a library's answer says of a call. */
typedef struct md_fa_answer {
    double us; /* 0: nothing */
    int32_t slices; /* that the sum is cut into; 0: there is no answer */
    int32_t algorithm, rows, columns; /* for reports: the library's number of the kernel, its tile (0: none) */
    double waves; /* for reports: tiles over those that run at once */
} md_fa_answer;

/* What a config comes to in the families of one kind: the kind's own struct, which md_fa_family.spec_of makes. */
typedef struct md_fa_spec {
    _Alignas(8) unsigned char bytes[MD_FA_SPEC_BYTES];
} md_fa_spec;

/* What families of one kind share: callbacks over a spec. A family's own callback goes before its kind's. */
typedef struct md_fa_kind {
    bool checks_config; /* `legal` knows without sizes whether there is such a kernel, and `emit` refuses it else */
    void (*envelope)(md_kn_envelope *out, const md_fa_target *target, const void *spec);
    void (*fix)(md_fa_fixed *out, const md_fa_target *target, const void *spec);
    /** `known`: what `fix` made; the spec where there is no `fix`. */
    void (*features)(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size);
    md_status (*emit)(md_kn_source *out, const md_fa_target *target, const void *spec);
    void (*geometry)(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape);
} md_fa_kind;

/* Callers do not ask a family's callbacks but the functions below (md_fa_envelope_of and so on). */
typedef struct md_fa_family {
    const char *name;
    md_dev_kind device;
    bool is_persistent; /* keeps rows on chip, which option persistent asks for; see reads_again */
    bool is_reduction; /* option persistent applies to it */
    bool is_library; /* calls kernels of a library */
    int32_t custom; /* above 0: a user's own kernel, with this number among the target's */
    bool takes_packed; /* tensors of i4 and u4: it loads and stores by the functions of memory.h only */
    bool is_for_points; /* its configs are for shapes that no hint is like: pools have it at points off the hints */
    bool is_last_resort; /* used only where no other family applies, or if pinned */
    int32_t n_fields;
    md_fa_field field[MD_FA_MAX_FIELDS];
    const md_fa_kind *kind; /* NULL: all callbacks are the family's own */
    /** Makes the kind's spec of a config. False where the family does not take the stage. */
    bool (*spec_of)(void *spec, const md_fa_target *target, const md_fa_config *config);
    /** True if the family can serve the stage at some sizes. NULL: if `spec_of` takes it. */
    bool (*applies)(const md_fa_target *target);
    /** True if a config is worth trying at these sizes (by dim id). It is no limit on correctness: that is the
     * envelope. NULL: every config is. */
    bool (*legal)(const md_fa_target *target, const md_fa_config *config, const int64_t *size);
    /** False if no config with this value of the field is legal at these sizes: loops over configs leave it out. NULL:
     * unknown. */
    bool (*takes)(const md_fa_target *target, int32_t field, int32_t value, const int64_t *size);
    /** Where the variant is correct. NULL, here and in the kind: everywhere. */
    void (*envelope)(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config);
    /** Facts that `features` needs and that do not depend on sizes. NULL: there are none. */
    void (*fix)(md_fa_fixed *out, const md_fa_target *target, const md_fa_config *config);
    void (*features)(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size);
    md_status (*emit)(md_kn_source *out, const md_fa_target *target, const md_fa_config *config);
    /** Persistent families: true if the config reads its rows again, and so is not persistent. NULL: none does. */
    bool (*reads_again)(const md_fa_target *target, const md_fa_config *config);
    /** Grid, block, memory of each launch. Called for every new shape within the envelope. */
    void (*geometry)(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape);
    /** Families of libraries: lists the calls that must be loaded before a run at this shape, so that the run only
     * launches. Returns the number of calls. `out` is zeroed and compared as bytes. NULL: there are none. */
    int32_t (*library_calls)(md_fa_library_call out[MD_FA_MAX_LIBRARY_CALLS], const md_fa_target *target,
                             const md_fa_config *config, const md_kn_shape *shape);
    /** Loads a call, which takes milliseconds or more. Without `may_load`: NOT_FOUND if it is not loaded.
     * Thread-safe. */
    md_status (*load_library_call)(md_dev *dev, const md_fa_library_call *call, bool may_load);
    /** Microseconds of a call by what the library answered for it; 0: it has not answered, or the model does not know
     * such an answer. NULL: nothing is known. Thread-safe. */
    md_fa_answer (*library_answer)(md_dev *dev, const md_dev_facts *facts, const md_fa_library_call *call);
    /** Adds a line for reports on what a variant decides by itself. NULL: nothing. */
    void (*describe)(md_strbuf *out, const md_fa_target *target, const md_fa_config *config);
    /** The numeric class of a config. NULL: each variant has a class to itself, and nothing is promised. */
    md_fa_class (*numeric)(const md_fa_target *target, const md_fa_config *config);
} md_fa_family;

/** The callbacks of a family, or of its kind. */
bool md_fa_legal(const md_fa_family *family, const md_fa_target *target, const md_fa_config *config,
                 const int64_t *size);
void md_fa_envelope_of(md_kn_envelope *out, const md_fa_family *family, const md_fa_target *target,
                       const md_fa_config *config);
/** False where nothing of the config is fixed; *out is then unchanged. */
bool md_fa_fix(md_fa_fixed *out, const md_fa_family *family, const md_fa_target *target, const md_fa_config *config);
/** Where the family does not take the stage *out is unchanged. */
void md_fa_features_of(md_fa_features *out, const md_fa_family *family, const md_fa_target *target,
                       const md_fa_config *config, const int64_t *size);
/** INTERNAL where the family does not take the stage; UNSUPPORTED if it has no kernel of this config. */
md_status md_fa_emit(md_kn_source *out, const md_fa_family *family, const md_fa_target *target,
                     const md_fa_config *config);
void md_fa_geometry_of(md_kn_geometries *out, const md_fa_family *family, const md_fa_target *target,
                       const md_fa_config *config, const md_kn_shape *shape);
/** What `fix` says of the config: as the target has it, else made in `room`. */
const void *md_fa_fixed_of(md_fa_fixed *room, const md_fa_family *family, const md_fa_target *target,
                           const md_fa_config *config);

/** True if the stage has tensors of i4 or u4. */
bool md_fa_has_packed(const md_fa_target *target);
/** True if the family can serve the stage at some sizes: it applies, and takes packed tensors if there are any. */
bool md_fa_applies(const md_fa_family *family, const md_fa_target *target);
/** All families of a device; NULL-terminated. Of families that predict the same time the first is chosen. */
const md_fa_family *const *md_fa_families(md_dev_kind device);
/** Family i of a target: the user's own first, then those of its device; NULL beyond the last. */
const md_fa_family *md_fa_of(const md_fa_target *target, int32_t i);
/** "row_persistent/lanes16_cap4096"; the family's name alone where it has no fields. */
void md_fa_name(char out[MD_FA_NAME], const md_fa_family *family, const md_fa_config *config);
/** The inverse of md_fa_name. NOT_FOUND says what is wrong and what exists. A field that the name leaves out has its
 * default; values outside the table are refused. */
md_status md_fa_parse(const md_fa_family **family, md_fa_config *config, md_dev_kind device, const char *name);
/** The same for a target, whose own kernels are found too. */
md_status md_fa_parse_for(const md_fa_family **family, md_fa_config *config, const md_fa_target *target,
                          const char *name);
/** False for the stored name of a variant of another version: its family has no such fields. Names of families that no
 * device has, and of a user's own kernels, are not judged. */
bool md_fa_is_current(const char *name);
/** True if the config keeps rows on chip, or reads them only once. */
bool md_fa_is_persistent(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config);
/** The default config. */
md_fa_config md_fa_default(const md_fa_family *family);
/** Calls fn for every legal config of the values that pools choose among, in the order of the table, until fn returns
 * false. */
void md_fa_each(const md_fa_target *target, const md_fa_family *family, const int64_t *size,
                bool (*fn)(void *user, const md_fa_config *config), void *user);
/** The same for all values: what a measured search chooses among. */
void md_fa_each_all(const md_fa_target *target, const md_fa_family *family, const int64_t *size,
                    bool (*fn)(void *user, const md_fa_config *config), void *user);

#endif
