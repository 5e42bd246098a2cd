import { ApiKeys } from "./api-keys.tsx";
import { Password } from "./password.tsx";
import { SecurityEvents } from "./security-events.tsx";
import { Totp } from "./totp.tsx";

export function AccountPage() {
  return (
    <>
      <ApiKeys />
      <div className="columns">
        <Totp />
        <Password />
      </div>
      <SecurityEvents />
    </>
  );
}
