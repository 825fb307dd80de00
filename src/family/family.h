/* A family: a way to make kernels for a stage. Five functions, a table of parameters, and a name. */
#ifndef MD_FAMILY_FAMILY_H
#define MD_FAMILY_FAMILY_H

#include "device/device.h"
#include "kernel/kernel.h"
#include "stage/stage.h"

enum { MD_FA_MAX_FIELDS = 8, MD_FA_MAX_VALUES = 20, MD_FA_NAME = 96 };

typedef struct md_fa_field {
    /* as it stands in the variant's name: "rows" in gemm/rows14_cols32; one that has only `more` values stands there
     * where it is not its default */
    const char *name;
    int32_t initial; /* the default */
    int32_t n; /* values that pools take, in order of search */
    int32_t value[MD_FA_MAX_VALUES];
    /* values behind those that only a search tries: the model hardly tells them apart, so that a pool would gain
     * nothing but the time to look at them */
    int32_t more;
} md_fa_field;

typedef struct md_fa_config {
    int32_t value[MD_FA_MAX_FIELDS]; /* parallel to the family's fields */
    int64_t custom; /* the family's; as wide as leaves no gap */
} md_fa_config;

/* What is being made for whom. */
typedef struct md_fa_target {
    const md_st_program *program;
    int32_t stage;
    const md_dev_facts *facts;
    bool allows_tf32; /* operands of f32 products may be rounded to tf32 */
    const struct md_fa_customs *customs; /* a user's own kernels (family/custom.h); NULL: none */
} md_fa_target;

static inline const md_st_stage *md_fa_stage(const md_fa_target *target)
{
    return &target->program->stage[target->stage];
}

/* What a variant costs at a shape: the model turns it into time. All for the whole launch sequence. */
typedef struct md_fa_features {
    double memory_bytes; /* beyond the last private cache */
    double cache_bytes; /* re-read from private caches */
    double ops; /* f32 fma-equivalents x 2 that the kernel really does, padding included */
    double ops_rate; /* fraction of the device's peak that the inner loop can reach; (0, 1] */
    double transcendental; /* exp, tanh, ... evaluations */
    double serial_us; /* fixed or latency-bound part per launch sequence besides launches */
    double parallel; /* blocks that can run at once, of facts.threads; 1..threads (fractions for a last wave) */
    int32_t launches;
    /* cuda only: the part of the memory rate that the loads in flight and the waves of blocks can reach, (0, 1]; 0:
     * 1. See family/cuda.h */
    double memory_rate;
} md_fa_features;

/* Which bits a variant gives: variants of one stage and class give the same ones (family/numeric.h). */
enum { MD_FA_CLASS_FIELDS = 4 };
typedef struct md_fa_class {
    const char *group; /* NULL: the variant is a class of its own */
    const char *field[MD_FA_CLASS_FIELDS]; /* fields of the config that tell classes of the group apart */
    bool is_repeatable; /* the same call gives the same bits */
    bool is_invariant; /* an element's bits do not depend on how many rows there are */
} md_fa_class;

enum { MD_FA_MAX_LIBRARY_CALLS = 4 };

/* A call of a library, as the family describes it to itself. */
typedef struct md_fa_library_call {
    uint64_t word[16];
} md_fa_library_call;

typedef struct md_fa_family {
    const char *name;
    md_dev_kind device;
    bool is_persistent; /* for MD_PERSISTENT: keeps rows on chip */
    bool is_reduction; /* MD_PERSISTENT applies to it */
    bool is_library; /* calls somebody else's kernels */
    int32_t custom; /* above 0: a user's own kernel, the number of it among the target's */
    bool is_last_resort; /* nest: only where no other family applies, or pinned */
    int32_t n_fields;
    md_fa_field field[MD_FA_MAX_FIELDS];
    /** Whether the family can serve the stage at all. */
    bool (*applies)(const md_fa_target *target);
    /** Whether a config is legal; sizes (by dim id) are those of a hint, and never a limit on correctness. */
    bool (*legal)(const md_fa_target *target, const md_fa_config *config, const int64_t *size);
    void (*envelope)(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config);
    void (*features)(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size);
    md_status (*emit)(md_kn_source *out, const md_fa_target *target, const md_fa_config *config);
    /** Called for every new shape within the envelope. */
    void (*geometry)(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape);
    /** Libraries: what must be loaded before a run at this shape, so that the run takes no longer than its launch; the
     * number of calls written. `out` is zeroed and compared as bytes. NULL: nothing. */
    int32_t (*library_calls)(md_fa_library_call out[MD_FA_MAX_LIBRARY_CALLS], const md_fa_target *target,
                             const md_fa_config *config, const md_kn_shape *shape);
    /** Loads it; takes milliseconds and more. Thread-safe. */
    md_status (*load_library_call)(md_dev *dev, const md_fa_library_call *call);
    /** The numeric class of a config. NULL: a class of its own, of which nothing is promised. */
    md_fa_class (*numeric)(const md_fa_target *target, const md_fa_config *config);
} md_fa_family;

/** All families of a device, in order of preference among equals; NULL-terminated. */
const md_fa_family *const *md_fa_families(md_dev_kind device);
/** Family i of a target: the user's own first, then those of its device; NULL beyond the last. */
const md_fa_family *md_fa_of(const md_fa_target *target, int32_t i);
/** "row_persistent/lanes16_cap4096"; the family's name alone where it has no fields. */
void md_fa_name(char out[MD_FA_NAME], const md_fa_family *family, const md_fa_config *config);
/** The inverse. NOT_FOUND names what is wrong and what exists. Values outside the table are refused. Fields that the
 * name leaves out have their defaults; names that fields had in earlier versions are understood. */
md_status md_fa_parse(const md_fa_family **family, md_fa_config *config, md_dev_kind device, const char *name);
/** The same, of a target's own kernels, too. */
md_status md_fa_parse_for(const md_fa_family **family, md_fa_config *config, const md_fa_target *target,
                          const char *name);
/** A stored name with the fields' names of today; a name that no family of either device understands stays. */
void md_fa_current_name(char out[MD_FA_NAME], const char *name);
/** The same name as it was printed before fields were renamed: the key of what older versions stored. */
void md_fa_former_name(char out[MD_FA_NAME], const char *name);
/** The default config. */
md_fa_config md_fa_default(const md_fa_family *family);
/** Calls fn for every legal config of the values that pools take, in the order of the table. Stops when fn returns
 * false. */
void md_fa_each(const md_fa_target *target, const md_fa_family *family, const int64_t *size,
                bool (*fn)(void *user, const md_fa_config *config), void *user);
/** The same of all values: what a measured search chooses among. */
void md_fa_each_all(const md_fa_target *target, const md_fa_family *family, const int64_t *size,
                    bool (*fn)(void *user, const md_fa_config *config), void *user);

#endif
