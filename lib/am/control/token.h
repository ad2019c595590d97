// Authentication over TCP: the job has a secret, and both ends prove that they know it.
//
//   const Token token = Token::make();               // the job; writes text() to a file of 0600
//   token.proof("job", nonces);                      // sent to the peer
//   token.proves("client", nonces, theirs);          // whether the peer knows the token too
//
// Both ends draw a nonce for each connection. A proof is a keyed hash (HMAC-SHA-512-256,
// libsodium's crypto_auth) of the prover's role and both nonces, so the secret is never sent, and a
// recorded proof cannot be replayed. The messages themselves are not encrypted: use `ssh -L` for
// that.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

namespace am::control {

// The nonces that the two ends drew for one connection, in hexadecimal digits.
struct Nonces {
  std::string client;
  std::string job;
};

class Token {
 public:
  // Creates a token from the system's random numbers.
  static Token make();
  // Reads the token from a file. Throws Error(kIo) if the file cannot be read, or if other users
  // may read it; Error(kFormat) if it does not contain a token.
  static Token read(const std::filesystem::path& file);

  // Returns the secret itself, as 64 hexadecimal digits.
  std::string text() const;
  // Returns the proof that the end `who`, "job" or "client", knows the token.
  std::string proof(std::string_view who, const Nonces& nonces) const;
  // Whether `proof` is the proof of the end `who`. Takes constant time.
  bool proves(std::string_view who, const Nonces& nonces, std::string_view proof) const;

 private:
  Token() = default;

  std::array<unsigned char, 32> secret_ = {};
};

// Returns 64 random hexadecimal digits.
std::string draw_nonce();
bool is_nonce(std::string_view text);

}  // namespace am::control
