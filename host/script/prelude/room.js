// Looks at clock and heap. What the engine itself does when its memory runs out cannot be relied on (it uses some
// allocations without asking whether they were made), so its own limit lies a good way, `spare`, above the plugin's,
// and a run is ended here before it comes there.
(function (native) {
  "use strict";
  const Buffer = ArrayBuffer;
  const spare = native.spare();
  const mostBytes = 2 ** 31 - 1 - spare;

  // An allocation of this size fails if and only if the heap would grow over the plugin's limit with `bytes` more. It
  // is never touched, so it costs a few microseconds and no memory.
  const fits = (bytes) => {
    try {
      new Buffer(spare + (bytes < mostBytes ? bytes : mostBytes));
      return true;
    } catch (error) {
      if (error !== null && error.message !== "out of memory") throw error;
      return false;
    }
  };
  // The engine's own interrupt comes within some thousand turns, and cannot be caught.
  const end = () => {
    for (;;);
  };
  // Ends the run where the heap has no room for `bytes` more.
  const room = (bytes) => {
    if (fits(bytes)) return;
    native.collect();
    if (fits(bytes)) return;
    native.full();
    end();
  };
  let left = 0;
  // Something big may have been made since the last look at the heap.
  let grown = false;
  // Ends the run where it is over, and gives how many turns may go by until the next look.
  const look = () => {
    const left = native.budget();
    if (left < 0) end();
    if (left < 1024 && !grown) return left;
    grown = false;
    room(0);
    return left & 1023;
  };
  // One turn of a loop of the host's own, or one call of a built-in.
  const turn = () => {
    left -= 1;
    if (left < 0) left = look();
  };
  // One call of a built-in that takes as long as many others, where what it is given is large.
  const longTurn = () => {
    left -= 32;
    if (left < 0) left = look();
  };
  // Before work on so many characters or elements, for each of which about so many bytes are made. What it makes may
  // go over the limit by half of what is spare, until the next look.
  const before = (size, bytes) => {
    if (size < 10_000) return;
    look();
    const over = size * bytes - spare / 2;
    if (over > 0) room(over);
    grown = size * bytes > 1_000_000;
    if (grown) left = 0;
  };
  // Work on a BigInt takes time that grows with the square of its bits, and cannot be interrupted: seconds for the million
  // bits that the engine allows, some milliseconds for as many as here.
  const most = 1n << 65_536n;
  const isHuge = (big) => big >= most || big <= -most;
  // Passes on what an operator made; a run that makes more than that ends.
  const bounded = (big) => {
    turn();
    if (!isHuge(big)) return big;
    native.huge();
    return end();
  };
  return { look, turn, longTurn, room, before, isHuge, bounded };
})
