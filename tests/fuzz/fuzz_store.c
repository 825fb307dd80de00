/* Fuzz target of entries on disk: any bytes are an entry or refused; what is packed comes back; one changed byte is
 * refused.
 *
 * With libFuzzer, from the root of the sources: clang -g -O1 -std=gnu11 -D_GNU_SOURCE
 * -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -Itests
 *   tests/fuzz/fuzz_store.c src/store/entry.c src/base/{hash,status}.c -o fuzz_store && ./fuzz_store WORK
 *   data/fuzz/store */
#include "base/status.h"
#include "store/entry.h"
#include "fuzz/text.h"

/* As a file that lies there. */
static void read_file(const uint8_t *data, size_t size)
{
    static const md_digest128 environment = {1, 2};
    md_sr_entry e;
    if (md_sr_entry_read(&e, data, size, NULL, NULL))
        return;
    require(e.n_key <= size && e.n_payload <= size, "an entry larger than its file", "");
    require((const uint8_t *)e.key >= data && (const uint8_t *)e.payload + e.n_payload == data + size,
            "an entry outside its file", "");
    (void)md_sr_entry_read(&e, data, size, &environment, "kind key");
}

/* As a payload: the first byte says which byte of the entry to change. */
static void round_trip(const uint8_t *data, size_t size)
{
    const md_digest128 environment = {3, 4};
    void *bytes = NULL;
    size_t n = 0;
    md_sr_entry e;
    if (md_sr_entry_pack(&bytes, &n, environment, "kind key", data, size) != MD_OK)
        return;
    require(!md_sr_entry_read(&e, bytes, n, &environment, "kind key"), "what was packed is refused", "");
    require(e.n_payload == size && (size == 0 || !memcmp(e.payload, data, size)), "what was packed is something else",
            "");
    if (size) {
        uint8_t *b = bytes;
        b[data[0] % n] ^= (uint8_t)(1 << (size % 8));
        require(md_sr_entry_read(&e, bytes, n, &environment, "kind key") != NULL, "a changed byte is not seen", "");
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_file(data, size);
    round_trip(data, size);
    return 0;
}
