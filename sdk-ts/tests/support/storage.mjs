// A storage of the browser's form, and locks of the browser's form.

/** `localStorage`, as far as anybody needs it. */
export function memoryStorage() {
  const items = new Map()
  return {
    get length() { return items.size },
    key: index => [...items.keys()][index] ?? null,
    getItem: name => items.get(name) ?? null,
    setItem: (name, value) => { items.set(name, String(value)) },
    removeItem: name => { items.delete(name) },
  }
}

/** `navigator.locks`, as far as anybody needs it: whoever asks later waits. */
export function memoryLocks() {
  const last = new Map()
  return {
    request(name, { signal }, work) {
      if (signal.aborted) return Promise.reject(signal.reason)
      const turn = (last.get(name) ?? Promise.resolve()).then(() => {
        signal.throwIfAborted()
        return work()
      })
      last.set(name, turn.catch(() => {}))
      const aborted = new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      return Promise.race([turn, aborted])
    },
  }
}
