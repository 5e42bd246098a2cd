/** What an object has open at once. */
import { expect, it } from "vitest";
import { Room } from "../../src/platform/room.ts";

/** Who has entered, in order. */
function visitors(room: Room) {
  const entered: string[] = [];
  const enter = (name: string, size: number) =>
    void room.enter(size).then(() => entered.push(name));
  return { entered, enter };
}

it("lets in what fits, in the order of arrival", async () => {
  const room = new Room(10);
  const { entered, enter } = visitors(room);
  enter("a", 6);
  enter("b", 5);
  // It would fit, but came later.
  enter("c", 1);
  await Promise.resolve();
  expect(entered).toEqual(["a"]);
  room.leave(6);
  await Promise.resolve();
  expect(entered).toEqual(["a", "b", "c"]);
});

it("lets in alone what is larger than the room", async () => {
  const room = new Room(10);
  const { entered, enter } = visitors(room);
  enter("small", 1);
  enter("large", 1_000);
  enter("next", 1);
  await Promise.resolve();
  expect(entered).toEqual(["small"]);
  room.leave(1);
  await Promise.resolve();
  expect(entered).toEqual(["small", "large"]);
  room.leave(1_000);
  await Promise.resolve();
  expect(entered).toEqual(["small", "large", "next"]);
});
