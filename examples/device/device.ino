// Learn on an Arduino, or any other board with a kilobyte of memory, how far to open a valve.
// The header comes from `zooming export valve.zoom learner.h --learner --number int --scale 32768`.
#include <Arduino.h>
#include <EEPROM.h>
static unsigned char *const block = (unsigned char *)1;  // not 0, which would mean "no place"
#define LEARNER_PUT(place, byte) EEPROM.update((int)((place) - block), byte)
#define LEARNER_GET(place) EEPROM.read((int)((place) - block))
#include "learner.h"

static learner_learner learner;  // all memory that learning needs
static learner_number state, action, next_state;

static learner_number measured() { return (learner_number)analogRead(A0) * 32; }  // 0 to 32736

void setup() {
  learner_init(&learner);                        // what the exported agent knows
  learner_load(&learner, block, LEARNER_BLOCK);  // or what this device knew before the power went
  state = measured();
}

void loop() {
  for (int step = 0; step < LEARNER_HORIZON; ++step) {
    learner_act(&learner, step, &state, &action);
    analogWrite(9, (int)(action / 129));
    delay(1000);
    next_state = measured();
    learner_number off = next_state > 16384 ? next_state - 16384 : 16384 - next_state;
    learner_learn(&learner, step, &state, &action, 32768 - off, &next_state, 0);
    state = next_state;
  }
  static unsigned long episodes;
  if (++episodes % 1000 == 0) learner_save(&learner, block);  // EEPROM wears out
}
