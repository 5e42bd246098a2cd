import { History } from "./history.tsx";
import { OpenRequests } from "./open-requests.tsx";
import { Positions, Total } from "./positions.tsx";

export function PortfolioPage() {
  return (
    <>
      <Total />
      <OpenRequests />
      <Positions />
      <History />
    </>
  );
}
