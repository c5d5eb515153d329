/* Copies of episodes in the resamples of a bootstrap: the hash of deadweight/inference/poisson.py, bit by bit.

   Words are made a few at a time, four resamples each, so that the comparisons that turn them into numbers of
   copies go over a row that is in cache, many resamples at once. */

#include "_buffers.h"
#include "_copies.h"
#include <string.h>

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)
#define WORDS 64 /* that are made before they are compared */
#define CUTS 8   /* levels; as many copies at most */

/* All bits of a word mixed: the finaliser of SplitMix64. */
INLINE uint64_t mixed(uint64_t word)
{
    word = (word ^ (word >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94D049BB133111EB);
    return word ^ (word >> 31);
}

/* Copies of one episode in each resample. Loops of a fixed length have no rest that is not a whole vector;
   of one with a rest gcc 12 makes wrong code, which counts it downwards. */
WIDE static void copies_of(uint64_t stream, const uint16_t *cuts, Py_ssize_t resamples, uint8_t *out)
{
    uint16_t levels[4 * WORDS];
    uint8_t copies[4 * WORDS];
    for (Py_ssize_t lo = 0; lo < resamples; lo += 4 * WORDS) {
        for (int j = 0; j < WORDS; j++) {
            uint64_t word = mixed(stream + (uint64_t)(lo / 4 + j + 1) * GOLDEN);
            levels[4 * j] = (uint16_t)word, levels[4 * j + 1] = (uint16_t)(word >> 16);
            levels[4 * j + 2] = (uint16_t)(word >> 32), levels[4 * j + 3] = (uint16_t)(word >> 48);
        }
        for (int i = 0; i < 4 * WORDS; i++) {
            uint16_t count = 0;
            for (int k = 0; k < CUTS; k++)
                count = (uint16_t)(count + (levels[i] >= cuts[k]));
            copies[i] = (uint8_t)count;
        }
        memcpy(out + lo, copies, (size_t)(resamples - lo < 4 * WORDS ? resamples - lo : 4 * WORDS));
    }
}

PyObject *resample_copies(PyObject *self, PyObject *args)
{
    PyObject *array[3], *result = NULL;
    unsigned long long seed;
    Py_ssize_t resamples, size[3];
    const int64_t *episodes, *given;
    uint16_t cuts[CUTS];
    uint8_t *out;
    Held held = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "KOOnO", &seed, &array[0], &array[1], &resamples, &array[2]))
        return NULL;
    episodes = data_of(&held, array[0], 'i', 0, &size[0]);
    given = data_of(&held, array[1], 'i', 0, &size[1]);
    out = data_of(&held, array[2], 'B', 1, &size[2]);
    if (PyErr_Occurred() || size[1] != CUTS || resamples < 0 || size[2] != size[0] * resamples) {
        wrong("the resamples");
        goto end;
    }
    for (int k = 0; k < CUTS; k++)
        cuts[k] = (uint16_t)given[k];
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < size[0]; i++)
        copies_of(mixed(mixed((uint64_t)seed) + (uint64_t)episodes[i] * GOLDEN), cuts, resamples, out + i * resamples);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
end:
    let_go(&held);
    return result;
}
