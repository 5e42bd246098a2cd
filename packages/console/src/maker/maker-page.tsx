import { Board } from "./board.tsx";
import { Figures } from "./figures.tsx";
import { OwnQuotes } from "./own-quotes.tsx";
import { Safety } from "./safety.tsx";

export function MakerPage() {
  return (
    <>
      <Safety />
      <Board />
      <OwnQuotes />
      <Figures />
    </>
  );
}
